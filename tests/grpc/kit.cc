#include "tests/grpc/kit.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

extern char** environ;

namespace {

// This program, or the one of the other kind.
std::string server_program(bool plugin) {
  const auto self = std::filesystem::read_symlink("/proc/self/exe");
  if (plugin == has_plugin()) return self.string();
  return self.parent_path() / (plugin ? "ferry_grpc_plugin_tests" : "ferry_grpc_tests");
}

}  // namespace

bool has_plugin() {
#ifdef FERRY_WITH_PLUGIN
  return true;
#else
  return false;
#endif
}

std::string plugin_path() { return FERRY_PLUGIN_PATH; }

const std::string& scratch() {
  static const std::string* const path = [] {
    std::string name = testing::TempDir() + "ferry-grpc-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    static const std::string kept = name;
    std::atexit([] { std::filesystem::remove_all(kept); });
    return &kept;
  }();
  return *path;
}

Started start_program(const std::vector<std::string>& words, const Environment& environment) {
  int in[2];
  int out[2];
  if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) std::abort();
  std::vector<std::string> settings;
  for (char** one = environ; *one != nullptr; ++one) settings.emplace_back(*one);
  for (const auto& [name, value] : environment) {
    const auto prefix = name + "=";
    std::erase_if(settings, [&](const auto& setting) { return setting.starts_with(prefix); });
    settings.push_back(prefix + value);
  }
  std::vector<char*> argv;
  for (const auto& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  std::vector<char*> envp;
  for (auto& setting : settings) envp.push_back(setting.data());
  envp.push_back(nullptr);
  // vfork: a fork of a process with gRPC's threads has handlers to run.
  const pid_t pid = ::vfork();
  if (pid == 0) {
    ::dup2(in[0], 0);
    ::dup2(out[1], 1);
    ::execve(argv[0], argv.data(), envp.data());
    ::_exit(127);
  }
  ::close(in[0]);
  ::close(out[1]);
  return {pid, in[1], out[0]};
}

std::string read_line(int fd) {
  std::string line;
  for (char letter = 0; ::read(fd, &letter, 1) == 1 && letter != '\n';) line += letter;
  return line;
}

std::string read_file(const std::string& path) {
  std::ifstream in(path);
  return {(std::istreambuf_iterator<char>(in)), {}};
}

std::vector<std::string> logging_to(const std::string& path, std::vector<std::string> words) {
  words.insert(words.begin(), {"/bin/sh", "-c", "exec \"$@\" 2>\"$0\"", path});
  return words;
}

int wait_for(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  return status;
}

// Those of connections that stayed on TCP, or the others.
static std::string lines_of(const std::string& text, bool plain) {
  std::istringstream all(text);
  std::string some;
  for (std::string line; std::getline(all, line);)
    if ((line.find("stays on TCP") != std::string::npos) == plain) some += line + "\n";
  return some;
}

Server::Server(ServerOptions options) : options_(std::move(options)) {
  static std::atomic<int> count{0};
  const auto number = std::to_string(count++);
  report_path_ = scratch() + "/report-" + number;
  std::vector<std::string> words{server_program(options_.plugin), "--serve"};
  if (options_.off) words.emplace_back("--off");
  if (!options_.argument.empty()) words.insert(words.end(), {"--argument", options_.argument});
  if (options_.tensors) words.emplace_back("--tensors");
  if (options_.tls) {
    certificate_ = make_certificate();
    words.insert(words.end(), {"--tls", scratch() + "/certificate-" + number});
    write_certificate(certificate_, words.back());
  }
  words.push_back(options_.address.empty() ? "127.0.0.1:" + std::to_string(options_.port)
                                           : options_.address);
  auto environment = options_.environment;
  environment.emplace_back("FERRY_GRPC_STATS", report_path_);
  log_path_ = scratch() + "/log-" + number;
  if (options_.logs) words = logging_to(log_path_, std::move(words));
  const auto started = start_program(words, environment);
  pid_ = started.pid;
  input_ = started.input;
  port_ = std::atoi(read_line(started.output).c_str());
  ::close(started.output);
  EXPECT_TRUE(port_ != 0 || !options_.address.empty()) << "the server did not start";
}

Server::~Server() {
  if (pid_ > 0) stop();
}

std::string Server::address() const {
  if (!options_.address.empty()) return options_.address;
  return (options_.tls ? "localhost:" : "127.0.0.1:") + std::to_string(port_);
}

void Server::signal(int number) const {
  ::kill(pid_, number);
  siginfo_t info{};
  if (number == SIGSTOP) ::waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED);
}

void Server::kill_now() {
  ::kill(pid_, SIGKILL);
  wait_for(std::exchange(pid_, -1));
  ::close(std::exchange(input_, -1));
}

int Server::stop() {
  ::close(std::exchange(input_, -1));
  return wait_for(std::exchange(pid_, -1));
}

std::string Server::report() const { return lines_of(read_file(report_path_), false); }
std::string Server::plain_report() const { return lines_of(read_file(report_path_), true); }
std::string Server::log() const { return read_file(log_path_); }

std::shared_ptr<grpc::Channel> Server::channel(grpc::ChannelArguments arguments) const {
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_MAX_METADATA_SIZE, 1 << 20);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 200);
  auto credentials =
      options_.tls ? channel_credentials(certificate_) : grpc::InsecureChannelCredentials();
  return grpc::CreateCustomChannel(address(), credentials, arguments);
}

std::string stamped(std::size_t bytes, std::uint64_t seed) {
  std::string text(bytes, '\0');
  std::uint64_t state = seed * 0x9e3779b97f4a7c15ULL + 1;
  for (std::size_t at = 0; at < bytes; at += 8) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    std::memcpy(text.data() + at, &state, std::min<std::size_t>(8, bytes - at));
  }
  return text;
}

grpc::Status call_echo(ferry::test::Echo::Stub& stub, std::size_t bytes, double seconds, bool wait,
                       std::int64_t sleep_ms) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000)));
  context.set_wait_for_ready(wait);
  ferry::test::Words asked;
  asked.set_payload(stamped(bytes, bytes));
  asked.set_sleep_ms(sleep_ms);
  ferry::test::Words said;
  auto status = stub.Unary(&context, asked, &said);
  if (status.ok() && said.payload() != asked.payload())
    return {grpc::StatusCode::DATA_LOSS, "not the bytes that were sent"};
  return status;
}

grpc::Status call_raw(const std::shared_ptr<grpc::Channel>& channel, const char* method,
                      const grpc::ByteBuffer& asked, grpc::ByteBuffer* said) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  grpc::CompletionQueue queue;
  auto call = stub.PrepareUnaryCall(&context, method, asked, &queue);
  call->StartCall();
  grpc::Status status;
  call->Finish(said, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  queue.Shutdown();
  return status;
}

std::string text_of(const grpc::ByteBuffer& bytes) {
  std::vector<grpc::Slice> slices;
  if (!bytes.Dump(&slices).ok()) return "not to be had";
  std::string all;
  for (const auto& slice : slices)
    all.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return all;
}

void expect_calls(const Server& server, grpc::ChannelArguments arguments) {
  auto stub = ferry::test::Echo::NewStub(server.channel(std::move(arguments)));
  for (std::size_t bytes : {10, 100'000, 5 << 20, 100}) {
    const auto status = call_echo(*stub, bytes);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
}
