# tools/check-docs must name each kind of breach, mend what it can, and find nothing in a clean tree.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{tools,docs} "$work"/ferry/{base,cli}
cp "$top/tools/check-docs" "$work/tools/"
git -C "$work" init -q
touch "$work"/ferry/base/{a,b,c_internal}.h "$work"/ferry/cli/d.h
long=$(printf 'word %.0s' {1..40})
printf '# Top\n\nSee [base](ferry/base/README.md) and [others](https://example.org/x).\n\n| %s |\n\n```\n%s\n```\n' "$long" "$long" \
  >"$work/README.md"
printf '# base\n\nPublic headers: `a.h`, `b.h`.\n' >"$work/ferry/base/README.md"
printf '# cli\n' >"$work/ferry/cli/README.md"
said=$("$work/tools/check-docs") || { echo "a clean tree was refused: $said"; exit 1; }

# expect TEXT PATH CONTENT: with this file in the tree, the check fails and says TEXT.
expect() {
  [[ ! -e $work/$2 ]] || cp "$work/$2" "$work/kept"
  printf -- "$3" >"$work/$2"
  if said=$("$work/tools/check-docs"); then echo "accepted: $1"; exit 1; fi
  grep -qF "$1" <<<"$said" || { echo "expected '$1' in: $said"; exit 1; }
  if [[ -e $work/kept ]]; then mv "$work/kept" "$work/$2"; else rm "$work/$2"; fi
}
expect "docs/x.md:2: the link to y.md#z leads nowhere" docs/x.md 'x\n[y](y.md#z)\n'
expect "docs/x.md:3: there is no ferry/base/z.h" docs/x.md \
  '`ferry/base/a.h`, `ferry/*/z.h`, `ferry/ROOM/z.h`, `ferry/base/...`\n\n`ferry/base/z.h:7`\n'
expect "docs/x.md:1: 202 columns" docs/x.md "- $long"
expect "README.md:1: 1200 words" README.md "$(printf 'a b c d\\n%.0s' {1..300})"
expect "a.h is missing, e.h does not exist" ferry/base/README.md 'Public headers: `b.h`,\n`e.h`.\n'
expect 'a room'"'"'s README has a line "Public headers: ..."' ferry/base/README.md '# base\n'

printf -- '%s\n- %s\n  %s\n- short\n' "$long" "$long" "rest" >"$work/docs/long.md"
printf '# base\n' >"$work/ferry/base/README.md"
"$work/tools/check-docs" --fix >/dev/null || { echo "--fix left a breach"; exit 1; }
grep -qF 'Public headers: `a.h`, `b.h`.' "$work/ferry/base/README.md"
[[ $(grep -c '^- ' "$work/docs/long.md") == 2 ]]
[[ $(grep -c '^  word' "$work/docs/long.md") == 1 ]]
