#include <gtest/gtest.h>

#include "ferry/fabric/device.h"
#include "ferry/runtime/ferry_ends_internal.h"
#include "ferry/transfer/shared_tensor.h"

namespace ferry::runtime {
namespace {

using tensor::ElementType;
using tensor::Shape;
using tensor::Spec;

Deadline within_20_s() { return Deadline::after(std::chrono::seconds(20)); }

fabric::Device open_device() {
  fabric::Options options;
  options.provider = "shm";
  return fabric::Device::open(options).value();
}

// The owner of the tensor gives this task up while the task works with it in place, and writes the
// version anew: the task's next step must not go on as if nothing had happened.
TEST(SharedReceiveEnds, AVersionThatWasTakenAwayWhileItWasUsedEndsTheTask) {
  auto owner = open_device();
  auto task = open_device();
  auto to_owner = task.connect(owner.endpoint()).value();
  auto to_task = owner.accept(within_20_s()).value();
  const Spec weights{ElementType::kF32, Shape::of({1024}).value()};
  auto writer = transfer::SharedWriter::open(owner, weights, {}).value();
  auto ticket = writer.admit(to_task).value();
  auto end = shared_receive_end(
      transfer::SharedReader::open(task, to_owner, ticket, weights).value(), to_owner, false, "ps");
  ASSERT_TRUE(writer.output(within_20_s()));
  ASSERT_TRUE(writer.publish());
  ASSERT_TRUE(end->ready(1).value());
  {
    auto version = end->take();
    ASSERT_TRUE(version) << version.error().to_string();
    to_task.close();  // given up
    ASSERT_TRUE(writer.output(within_20_s()));
    ASSERT_TRUE(writer.publish());
  }
  auto next = end->ready(2);
  ASSERT_FALSE(next);
  EXPECT_EQ(next.error().code(), Code::kUnavailable);
}

}  // namespace
}  // namespace ferry::runtime
