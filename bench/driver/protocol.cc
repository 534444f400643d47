#include "bench/driver/protocol.h"

#include <charconv>

namespace ferry::bench {
namespace {

Status refuse_errors(std::string_view line) {
  if (line.substr(0, 3) == "ok ") return {};
  if (line.substr(0, 6) == "error ") return fail(Code::kAborted, "{}", line.substr(6));
  return fail(Code::kInternal, "a round program said '{}' instead of ok or error", line);
}

// The text after " key=", up to a space or the end.
Result<std::string_view> text_of(std::string_view line, std::string_view key) {
  const auto mark = fmt::format(" {}=", key);
  const auto at = line.find(mark);
  if (at == std::string_view::npos)
    return fail(Code::kInternal, "a round program's answer lacks {}: '{}'", key, line);
  const auto value = line.substr(at + mark.size());
  return value.substr(0, value.find(' '));
}

template <class T>
Result<T> number_in(std::string_view text, std::string_view line) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return fail(Code::kInternal, "'{}' is not a number in a round program's answer '{}'", text,
                line);
  return value;
}

template <class T>
Result<T> number_of(std::string_view line, std::string_view key) {
  return number_in<T>(FERRY_TRY(text_of(line, key)), line);
}

}  // namespace

const char* Workload::touch() const {
  return read == Read::kPages ? "page" : read == Read::kLines ? "all" : "bytes";
}

std::string Workload::text() const {
  return fmt::format("A {} B a tensor, B {}, B answers",
                     produce ? "writes the whole of and gives" : "gives",
                     read == Read::kPages   ? "reads one byte per page"
                     : read == Read::kLines ? "reads every line"
                                            : "takes the maximum of all of it");
}

std::string run_line(const RoundOrder& order) {
  return fmt::format("run bytes={} rounds={} touch={} wait={} produce={}", order.bytes,
                     order.rounds, order.work.touch(), order.sleep ? "sleep" : "spin",
                     order.work.produce ? 1 : 0);
}

Result<RoundHello> parse_hello(std::string_view line) {
  FERRY_TRY(refuse_errors(line));
  RoundHello hello;
  hello.name = FERRY_TRY(text_of(line, "name"));
  // The sentence has spaces in it: it ends where the sizes begin.
  const auto what = line.find(" what=");
  const auto sizes = line.rfind(" sizes=");
  if (what == std::string_view::npos || sizes == std::string_view::npos || what > sizes)
    return fail(Code::kInternal, "a round program's hello lacks what or sizes: '{}'", line);
  hello.what = line.substr(what + 6, sizes - what - 6);
  const auto range = line.substr(sizes + 7);
  const auto dash = range.find('-');
  if (dash == std::string_view::npos)
    return fail(Code::kInternal, "a round program's hello has no range of sizes: '{}'", line);
  hello.min_bytes = FERRY_TRY(number_in<std::uint64_t>(range.substr(0, dash), line));
  hello.max_bytes = FERRY_TRY(number_in<std::uint64_t>(range.substr(dash + 1), line));
  return hello;
}

Result<RoundResult> parse_result(std::string_view line) {
  FERRY_TRY(refuse_errors(line));
  RoundResult result;
  result.ns = FERRY_TRY(number_of<double>(line, "ns"));
  result.cpu_ns = FERRY_TRY(number_of<double>(line, "cpu_ns"));
  result.checked = FERRY_TRY(number_of<std::uint64_t>(line, "checked"));
  result.bad = FERRY_TRY(number_of<std::uint64_t>(line, "bad"));
  return result;
}

}  // namespace ferry::bench
