#include <algorithm>
#include <chrono>

#include "ferry/interop/pslite/customers_internal.h"

namespace ps {

void Customers::set_worker(bool worker) {
  const std::lock_guard<std::mutex> lock(mu_);
  worker_ = worker;
}

Customer* Customers::customer_for(const Meta& meta) const {
  const int customer_id = worker_ ? meta.customer_id : meta.app_id;
  const auto found = customers_.find({meta.app_id, customer_id});
  return found == customers_.end() ? nullptr : found->second;
}

void Customers::deliver(Message message, bool at_once) {
  std::unique_lock<std::mutex> lock(mu_);
  auto* customer = customer_for(message.meta);
  if (customer == nullptr) {
    waiting_.push_back(std::move(message));
    return;
  }
  const bool alone = at_once && !several_;
  ++given_[customer];
  lock.unlock();
  customer->Accept(message, alone);
  lock.lock();
  if (--given_[customer] == 0) given_.erase(customer);
  changed_.notify_all();
}

void Customers::add(Customer* customer) {
  std::unique_lock<std::mutex> lock(mu_);
  customers_[{customer->app_id(), customer->customer_id()}] = customer;
  if (customers_.size() > 1) several_ = true;
  changed_.notify_all();
  for (auto each = waiting_.begin(); each != waiting_.end();) {
    if (customer_for(each->meta) != customer) {
      ++each;
      continue;
    }
    customer->Accept(*each);
    each = waiting_.erase(each);
  }
}

bool Customers::remove(Customer* customer) {
  std::unique_lock<std::mutex> lock(mu_);
  const std::pair key(customer->app_id(), customer->customer_id());
  if (const auto found = customers_.find(key);
      found != customers_.end() && found->second == customer)
    customers_.erase(found);
  changed_.wait(lock, [&] { return given_.count(customer) == 0; });
  return std::none_of(customers_.begin(), customers_.end(), [&](const auto& each) {
    return each.first.second == customer->customer_id();
  });
}

Customer* Customers::find(int app_id, int customer_id, int timeout) {
  std::unique_lock<std::mutex> lock(mu_);
  const std::pair key(app_id, customer_id);
  (void)changed_.wait_for(lock, std::chrono::seconds(timeout),
                          [&] { return customers_.count(key) > 0; });
  const auto found = customers_.find(key);
  return found == customers_.end() ? nullptr : found->second;
}

}  // namespace ps
