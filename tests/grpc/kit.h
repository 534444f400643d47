#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/grpc/certificate.h"
#include "tests/grpc/echo.grpc.pb.h"

// Whether this program was linked with the plug-in. The tests are the same either way.
bool has_plugin();
std::string plugin_path();
// A folder for this run.
const std::string& scratch();

using Environment = std::vector<std::pair<std::string, std::string>>;

struct ServerOptions {
  bool plugin = has_plugin();  // this program serves, or one of the other kind
  bool tls = false;
  bool tensors = false;    // with settings for tensors
  bool off = false;        // the channel argument that turns the plug-in off
  std::string argument{};  // of the server, as "NAME=NUMBER"
  int port = 0;
  std::string address{};  // instead of a port
  bool logs = false;      // what it logs is kept for log()
  Environment environment{};
};

// A server process. Ends it, gracefully if nothing else was said.
class Server {
 public:
  explicit Server(ServerOptions options = {});
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  int port() const { return port_; }
  std::string address() const;
  pid_t pid() const { return pid_; }
  void kill_now();
  void signal(int number) const;
  // The exit status of a graceful end.
  int stop();
  // What the plug-in reports of the connections there were, once the server has stopped.
  std::string report() const;
  // The same of those that stayed on TCP.
  std::string plain_report() const;
  std::string log() const;
  // A channel of its own, not shared with others to the same server.
  std::shared_ptr<grpc::Channel> channel(grpc::ChannelArguments arguments = {}) const;

 private:
  ServerOptions options_;
  Certificate certificate_;
  std::string report_path_;
  std::string log_path_;
  pid_t pid_ = -1;
  int port_ = 0;
  int input_ = -1;
};

// Starts a program: its pid, and ends of pipes to its standard input and from its output.
struct Started {
  pid_t pid = -1;
  int input = -1;
  int output = -1;
};
Started start_program(const std::vector<std::string>& words, const Environment& environment);
std::string read_line(int fd);
std::string read_file(const std::string& path);
// The same program, with its standard error in a file.
std::vector<std::string> logging_to(const std::string& path, std::vector<std::string> words);
int wait_for(pid_t pid);

// Bytes that tell where they belong.
std::string stamped(std::size_t bytes, std::uint64_t seed);

// One unary call with so many bytes. DATA_LOSS if others come back.
grpc::Status call_echo(ferry::test::Echo::Stub& stub, std::size_t bytes, double seconds = 30,
                       bool wait = false, std::int64_t sleep_ms = 0);
// One call with bytes that no protobuf has seen, which come back.
grpc::Status call_raw(const std::shared_ptr<grpc::Channel>& channel, const char* method,
                      const grpc::ByteBuffer& asked, grpc::ByteBuffer* said);
std::string text_of(const grpc::ByteBuffer& bytes);
// Calls of several sizes, on a channel of their own, that may fail fast.
void expect_calls(const Server& server, grpc::ChannelArguments arguments = {});
