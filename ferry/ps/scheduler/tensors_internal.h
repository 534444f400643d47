#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ferry/ps/scheduler/block_placement_internal.h"
#include "ferry/ps/scheduler/job_image_internal.h"

namespace ferry::ps {

// The tensors of a job by name: where their blocks lie, who brings their first values, and who
// waits for these. A part of JobState: no thread, no I/O.
//
// Between calls: nobody waits for a tensor that is there; the placement counts the blocks of all
// tensors, and of one that is planned and not yet added or discarded.
class Tensors {
 public:
  // How many shards the servers have; before anything is planned.
  void set_shards(std::size_t shards) { placement_.emplace(shards); }
  bool has_shards() const { return placement_.has_value(); }
  void restore(const JobImage& image);
  void save(JobImage& image) const;

  std::uint32_t size() const { return static_cast<std::uint32_t>(tensors_.size()); }
  bool contains(const std::string& name) const { return tensors_.contains(name); }
  bool all_there() const;
  // Chooses the number and the shards of a new tensor.
  Result<TensorInfo> plan(TensorInfo info, std::uint64_t most_block_bytes);
  void add(TensorInfo info, std::uint32_t creator, bool there);
  void discard(const TensorInfo& info);

  // The answer to who wants a tensor that is known; none: the question waits for its first values.
  // kAlreadyExists: it is another one under the same name. `view`: the number that answers carry.
  // Who has asked before, and waits, is told that it has asked again.
  Result<std::optional<Bytes>> init(const Question& question, std::uint32_t rank,
                                    const TensorInfo& info, std::uint64_t view, Effects& out);
  // The same, by its name alone. kNotFound.
  Result<std::optional<Bytes>> find(const Question& question, const std::string& name,
                                    std::uint64_t view, Effects& out);
  // To the worker that is to bring the first values.
  static Bytes created_answer(const TensorInfo& info, std::uint64_t view);
  // The first values are there: whoever waited is answered.
  void set_there(std::uint32_t id, std::uint64_t view, Effects& out);
  // The worker of this rank brings no first values any more: the numbers of tensors that are no
  // more. Whoever waited for these is told.
  std::vector<std::uint32_t> forget(std::uint32_t creator, Effects& out);
  void forget_waiting(PeerId peer);
  std::vector<Question> take_waiting();

  std::vector<TensorInfo> infos() const;  // of all
  std::vector<TensorInfo> infos_there() const;
  Bytes names() const;  // the answer to kNames

 private:
  struct TensorAt : TensorRecord {
    std::vector<Question> waiting{};  // for the first values
  };
  // The answer to who asks for this tensor; none: the first values are not there, and the question
  // waits for them in place of a former one of the same connection, which is answered.
  static std::optional<Bytes> show(const Question& question, TensorAt& tensor, std::uint64_t view,
                                   Effects& out);

  std::map<std::string, TensorAt, std::less<>> tensors_;
  std::optional<BlockPlacement> placement_;
  std::uint32_t last_tensor_ = 0;
};

}  // namespace ferry::ps
