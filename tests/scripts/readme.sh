# The programs in README.md compile as they stand there, given a main() around them.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
awk -v folder="$folder" '/^```cpp/ { out = folder "/" ++n ".txt"; next } /^```/ { out = "" } out != "" { print > out }' "$top/README.md"
count=0
for text in "$folder"/*.txt; do
  {
    printf '#include <cstdio>\n#include <vector>\n'
    grep '^#include' "$text"
    printf 'int main() {\n'
    grep -v '^#include' "$text"
    printf '}\n'
  } >"$text.cc"
  "${CXX:-g++}" -std=c++20 -fsyntax-only -I "$top" "$text.cc"
  count=$((count + 1))
done
[[ $count -ge 2 ]] || { echo "README.md has $count programs"; exit 1; }
