# tools/check-includes must name each kind of breach, and find nothing in a clean tree.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/tools "$work"/ferry/{base,memory,fabric}
cp "$top/tools/check-includes" "$work/tools/"
git -C "$work" init -q
for room in base memory fabric; do echo "# $room" >"$work/ferry/$room/README.md"; done
printf '#pragma once\n' >"$work/ferry/base/a.h"
printf '#pragma once\n#include "ferry/base/a.h"\n' >"$work/ferry/memory/pool_internal.h"
printf '#include "ferry/memory/pool_internal.h"\n' >"$work/ferry/memory/pool.cc"
"$work/tools/check-includes" || { echo "a clean tree was refused"; exit 1; }

# expect TEXT PATH CONTENT: with this file in the tree, the check fails and says TEXT.
expect() {
  local text=$1 path=$2
  printf "$3" >"$work/$path"
  if said=$("$work/tools/check-includes"); then echo "accepted: $path"; exit 1; fi
  grep -qF "$path:$text" <<<"$said" || { echo "expected '$path:$text' in: $said"; exit 1; }
  rm "$work/$path"
}
expect '1: room base must not include "ferry/memory/pool.h"' ferry/base/b.cc '#include "ferry/memory/pool.h"\n'
expect '2: "ferry/memory/pool_internal.h" is private to room memory' ferry/fabric/c.cc '\n#include "ferry/memory/pool_internal.h"\n'
expect '1: "ferry/memory/deep/x.h" is private to room memory' ferry/fabric/c.cc '#include "ferry/memory/deep/x.h"\n'
expect '2: a public header must not include' ferry/memory/d.h '#pragma once\n#include "ferry/memory/pool_internal.h"\n'
expect '1: "a.h": write the full path' ferry/base/e.cc '#include "a.h"\n'
expect '1: only ferry/cli' ferry/base/f.cc 'auto x = getenv("X");\n'
expect '1: a header begins with #pragma once' ferry/base/g.h 'int x;\n'
expect '501: 600 lines' ferry/base/h.cc "$(printf '\\n%.0s' {1..600})"
mkdir -p "$work"/bench/{driver,limits}
for folder in . driver limits; do echo "# $folder" >"$work/bench/$folder/README.md"; done
printf '#include "bench/driver/run.h"\n#include "ferry/base/a.h"\n#include "ferry/cli/common/text.h"\n' >"$work/bench/driver/run.cc"
"$work/tools/check-includes" || { echo "a clean folder of benchmarks was refused"; exit 1; }
expect '1: "bench/driver/run.h": write the full path' ferry/base/j.cc '#include "bench/driver/run.h"\n'
expect '1: "ferry/cli/train.h" is a command of ferry' bench/driver/k.cc '#include "ferry/cli/train.h"\n'
expect '1: "ferry/memory/pool_internal.h" is private to room memory' bench/driver/k.cc '#include "ferry/memory/pool_internal.h"\n'
expect '1: limits and peers must not include "ferry/base/a.h"' bench/limits/l.cc '#include "ferry/base/a.h"\n'
mkdir "$work/ferry/attic"
expect '1: room attic is not listed' ferry/attic/i.cc '\n'
rmdir "$work/ferry/attic"
rm "$work/ferry/memory/README.md"
if "$work/tools/check-includes" >/dev/null; then echo "accepted a room without a README"; exit 1; fi
