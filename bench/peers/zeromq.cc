// Push and pull over ZeroMQ, as a parameter server without anything else would do them:
//   ferry-peer-zeromq KEYS VALUES ROUNDS     prints "ok rounds_per_second=<number>"
// One process adds what the other one pushes, and sends the sums back when they are pulled.
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

[[noreturn]] void give_up(const char* what) {
  std::printf("error %s: %s\n", what, zmq_strerror(zmq_errno()));
  std::exit(1);
}

void send_part(void* socket, const void* data, std::size_t bytes, bool more) {
  if (zmq_send(socket, data, bytes, more ? ZMQ_SNDMORE : 0) < 0) give_up("send");
}

// All parts of the next message; false when it is the empty one that ends the run.
bool receive(void* socket, std::vector<std::vector<char>>& parts) {
  parts.clear();
  for (int more = 1; more != 0;) {
    zmq_msg_t message;
    zmq_msg_init(&message);
    if (zmq_msg_recv(&message, socket, 0) < 0) give_up("receive");
    const auto* data = static_cast<const char*>(zmq_msg_data(&message));
    parts.emplace_back(data, data + zmq_msg_size(&message));
    more = zmq_msg_more(&message);
    zmq_msg_close(&message);
  }
  return parts.size() > 1 || !parts.front().empty();
}

void serve(int port_pipe, std::size_t values) {
  void* context = zmq_ctx_new();
  void* socket = zmq_socket(context, ZMQ_REP);
  if (zmq_bind(socket, "tcp://127.0.0.1:*") != 0) give_up("bind");
  char endpoint[256] = {};
  std::size_t length = sizeof(endpoint);
  zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, endpoint, &length);
  if (write(port_pipe, endpoint, sizeof(endpoint)) != sizeof(endpoint)) std::exit(1);
  std::vector<float> sums(values);
  std::vector<std::vector<char>> parts;
  while (receive(socket, parts)) {
    if (parts.size() > 1) {
      const auto* pushed = reinterpret_cast<const float*>(parts[1].data());
      for (std::size_t each = 0; each < values; ++each) sums[each] += pushed[each];
      send_part(socket, "", 0, false);
    } else {
      send_part(socket, parts[0].data(), parts[0].size(), true);
      send_part(socket, sums.data(), sums.size() * sizeof(float), false);
    }
  }
  std::exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return std::printf("error usage: ferry-peer-zeromq KEYS VALUES ROUNDS\n"), 2;
  const std::vector<std::uint64_t> keys(std::strtoul(argv[1], nullptr, 10));
  const std::vector<float> values(std::strtoul(argv[2], nullptr, 10), 1.0F);
  const int rounds = std::atoi(argv[3]);
  int ends[2];
  if (pipe(ends) != 0) return 1;
  const pid_t server = fork();
  if (server == 0) serve(ends[1], values.size());
  char endpoint[256];
  if (read(ends[0], endpoint, sizeof(endpoint)) != sizeof(endpoint)) return 1;
  void* context = zmq_ctx_new();
  void* socket = zmq_socket(context, ZMQ_REQ);
  if (zmq_connect(socket, endpoint) != 0) give_up("connect");
  std::vector<std::vector<char>> parts;
  const auto begin = std::chrono::steady_clock::now();
  for (int round = 0; round < rounds; ++round) {
    send_part(socket, keys.data(), keys.size() * sizeof(keys[0]), true);
    send_part(socket, values.data(), values.size() * sizeof(float), false);
    (void)receive(socket, parts);
    send_part(socket, keys.data(), keys.size() * sizeof(keys[0]), false);
    (void)receive(socket, parts);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const auto* got = reinterpret_cast<const float*>(parts.at(1).data());
  for (std::size_t each = 0; each < values.size(); ++each)
    if (got[each] != static_cast<float>(rounds)) return std::printf("error wrong values\n"), 1;
  send_part(socket, "", 0, false);
  waitpid(server, nullptr, 0);
  std::printf("ok rounds_per_second=%.1f\n", rounds / took.count());
  return 0;
}
