# tools/check-code must name each kind of breach, and find nothing in a clean tree.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/tools "$work"/{ferry/base,bench,tests}
cp "$top/tools/check-code" "$work/tools/"
git -C "$work" init -q

# A clean tree has what is just small enough.
cat >"$work/ferry/base/good.h" <<EOF
#pragma once
namespace ferry {
struct GoodOptions {
$(for i in {1..30}; do echo "  int option$i = $i;"; done)
};
class Good {
 public:
  Good() = default;
  Good(const Good&) = delete;
$(for i in {1..40}; do echo "  int method$i() { return $i; }"; done)
  static constexpr int kConstant = 1;
$(for i in {1..25}; do echo "  int member${i}_;"; done)
};
struct GoodCore;
}  // namespace ferry
EOF
printf '#pragma once\n#include "ferry/base/good.h"\n' >"$work/ferry/base/good_core_internal.h"
cat >"$work/ferry/base/good.cc" <<EOF
#include "ferry/base/good_core_internal.h"
int just_fits() {
$(for i in {1..57}; do echo "  // } $i"; done)
  return '}';
}
EOF
said=$("$work/tools/check-code") || { echo "a clean tree was refused: $said"; exit 1; }

# expect TEXT PATH: with what is read as this file, the check fails and says TEXT. The file goes again.
expect() {
  local text=$1 path=$2
  cat >"$work/$path"
  if said=$("$work/tools/check-code"); then echo "accepted: $path, which should be: $text"; exit 1; fi
  grep -qF "$text" <<<"$said" || { echo "expected '$text' in: $said"; exit 1; }
  rm "$work/$path"
}
expect "ferry/base/a.cc:2: A::long_one has 61 lines" ferry/base/a.cc <<EOF
struct A { int x; int long_one(); A(); };
int A::long_one() {
$(for i in {1..58}; do echo "  x += $i;"; done)
  return x;
}
EOF
expect "(a_test.cc)::long_one has 62 lines" tests/a_test.cc <<EOF
namespace {
template <class T>
int long_one(T x) {
$(for i in {1..58}; do echo "  x += $i;"; done)
  return x;
}
}
EOF
expect "ferry/base/a.h:3: ferry::A has 41 methods, more than 40" ferry/base/a.h <<EOF
#pragma once
namespace ferry {
class A {
$(for i in {1..40}; do echo "  void method$i();"; done)
  template <class T> void one_more(T);
};
}
EOF
expect "A::Nested has 26 members, more than 25" bench/a.cc <<EOF
class A {
  struct Nested {
$(for i in {1..24}; do echo "    int member$i;"; done)
    union { int a; float b; };
  };
  int other;
};
EOF
cat >"$work/ferry/base/two.h" <<EOF
#pragma once
struct Two {
  void first();
  void second();
$(for i in {1..8}; do echo "  void method$i() {" && for j in {1..47}; do echo "    //"; done && echo "  }"; done)
};
EOF
printf '#include "ferry/base/two.h"\nvoid Two::first() {\n  first();\n  first();\n}\n' >"$work/ferry/base/two.cc"
expect "Two has 401 lines of methods, more than 400" ferry/base/two_more.cc <<EOF
#include "ferry/base/two.h"
void Two::second() {
  first();
  first();
  first();
}
EOF
rm "$work/ferry/base/two.h" "$work/ferry/base/two.cc"
expect "Part is a part of Whole and must not hold it" ferry/base/a.h <<EOF
#pragma once
struct Whole;
struct Part { Whole* whole; };
struct Whole { Part part; };
EOF
expect "tests/a.h:501: 600 lines" tests/a.h < <(for i in {1..600}; do echo; done)
expect 'bench/a.cc:1: bench/ must not include "tests/b.h"' bench/a.cc <<<'#include "tests/b.h"'
printf '#include "ferry/base/b.h"\n' >"$work/ferry/base/a.cc"
printf '#include "ferry/base/a.h"\n' >"$work/ferry/base/b.cc"
printf '#pragma once\n' | tee "$work/ferry/base/a.h" >"$work/ferry/base/b.h"
expect "modules include each other: ferry/base/a ferry/base/b" tests/c.h <<<'#pragma once'
printf 'circle ferry/base/a ferry/base/b ferry/base/c: for a test\n' >"$work/tools/check-code.txt"
"$work/tools/check-code" || { echo "an exception was not heeded"; exit 1; }
printf '#pragma once\n#include "ferry/base/b.h"\n' >"$work/ferry/base/a.h"
rm "$work/tools/check-code.txt"
expect "headers include each other: ferry/base/a.h ferry/base/b.h" ferry/base/b.h <<<'#include "ferry/base/a.h"'
rm "$work"/ferry/base/[ab].*
expect "nothing needs this exception any more" tools/check-code.txt <<<'class Good: it was large once'
expect "an exception gives its reason" tools/check-code.txt <<<'class Good:'
expect "no_such_type" ferry/base/a.h <<<'no_such_type x;'
