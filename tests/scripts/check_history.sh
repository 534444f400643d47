# tools/check-history must name each kind of breach, accept a good history, and skip where it sees none.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE

mkdir -p "$work/tree/tools"
cp "$top/tools/check-history" "$work/tree/tools/"
cd "$work/tree"

# expect STATUS TEXT: what the check says with "start" as its base.
expect() {
  local status=0
  said=$(tools/check-history start) || status=$?
  [[ $status == "$1" ]] || { echo "expected status $1, got $status: $said"; exit 1; }
  grep -qF -- "$2" <<<"$said" || { echo "expected '$2' in: $said"; exit 1; }
}
commit() { git commit -q --allow-empty -m "$1"; }

expect 77 "not a git repository"
git init -q -b main
expect 77 "no commit yet"
commit "Whatever was said before the rules"
expect 77 "commit start is not part of this history"
git tag start
expect 0 "0 commits"
commit "fabric, tools: keep a lane (see /usr/share) at work/tmp/x"
expect 0 "1 commits"

# refuse TEXT SUBJECT [BODY]: such a commit is wrong in just this way.
refuse() {
  commit "$2${3:+$'\n\n'$3}"
  expect 1 "$1"
  [[ $(grep -c '^[0-9a-f]* "' <<<"$said") == 1 ]] || { echo "more than one breach in: $said"; exit 1; }
  git reset -q --hard HEAD~
}
refuse "the subject is not" "Fix the lane"
refuse "the subject is not" "fabric fix the lane"
refuse "the subject is not" "fabric,tcp: fix the lane"
refuse "has 101 characters" "fabric: $(printf 'x%.0s' {1..93})"
refuse "names a path of a machine: see '/home/me/notes'" "fabric: fix the lane" "see '/home/me/notes'"
refuse "names a path of a machine" "fabric: fix the lane" "/tmp/x had it"

git checkout -q -b side start
commit "tools: on the side"
git checkout -q main
git merge -q --no-ff -m "tools: join what was on the side" side
expect 1 "a merge commit"
git reset -q --hard HEAD~

for each in {1..20}; do commit "base: step $each"; done
expect 0 "20 commits"

git clone -q --depth 1 "file://$work/tree" "$work/shallow"
mkdir -p "$work/shallow/tools" && cp tools/check-history "$work/shallow/tools/"
cd "$work/shallow"
expect 77 "shallow"
mkdir -p inside/tools && cp tools/check-history inside/tools/
cd inside
expect 77 "no repository of its own"
