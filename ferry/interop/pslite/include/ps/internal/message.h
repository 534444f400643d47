#pragma once

#include <ps/sarray.h>

#include <string>
#include <vector>

namespace ps {

// What a message is about.
struct Meta {
  static const int kEmpty = -1;
  int head = kEmpty;  // the application's command
  int app_id = kEmpty;
  int customer_id = kEmpty;
  int timestamp = kEmpty;
  int sender = kEmpty;
  int recver = kEmpty;
  int priority = 0;
  bool request = false;
  bool push = false;
  bool pull = false;
  bool simple_app = false;
  std::string body;
};

struct Message {
  Meta meta;
  std::vector<SArray<char>> data;

  template <typename V>
  void AddData(const SArray<V>& val) {
    data.push_back(SArray<char>(val));
  }
};

}  // namespace ps
