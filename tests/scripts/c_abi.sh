# The C interface: its symbols and layouts are those that are committed, a C program runs with it, and it does so where
# libibverbs is not.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
library=$(readlink -f "$1/../lib/libtensorferry.so.0")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
nm -D --defined-only "$library" | awk '$2 != "A" {print $3}' | sed 's/@.*//' | LC_ALL=C sort >"$folder/symbols"
diff "$top/tests/abi/ferry.symbols" "$folder/symbols" || { echo "the symbols differ: see docs/versions.md"; exit 1; }
for program in layouts use; do
  gcc -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -I "$top" "$top/tests/abi/$program.c" -o "$folder/$program" \
    -L "$(dirname "$library")" -l:libtensorferry.so.0 -Wl,-rpath,"$(dirname "$library")"
done
"$folder/layouts" >"$folder/layouts.txt"
diff "$top/tests/abi/layouts.txt" "$folder/layouts.txt" || { echo "the layouts differ: see docs/versions.md"; exit 1; }
needed=$(readelf -d "$library" | grep NEEDED)
! grep -E 'ibverbs|rdmacm|fuse|grpc' <<<"$needed" || { echo "the library does not load without these"; exit 1; }
"$folder/use" >"$folder/facts"
verbs=$(ldconfig -p | awk '/libibverbs\.so\.1 / && !seen++ {print $NF}')
# Without libibverbs: an empty file lies over it, where a namespace of mounts can be had.
if [[ -n $verbs ]] && unshare --mount true 2>/dev/null; then
  unshare --mount bash -c 'mount --bind /dev/null "$(readlink -f "$1")" && "$2"' - "$verbs" "$folder/use" >"$folder/without"
  grep -q '"name":"verbs","on":false' <<<"$(sed 's/"capabilities":{[^}]*},//g; s/"detail":"[^"]*",//g' "$folder/without")" ||
    { cat "$folder/without"; exit 1; }
fi
