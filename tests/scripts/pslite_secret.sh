# Jobs of programs for ps-lite on the loopback without FERRY_SECRET: the processes of one user find a secret that
# other users do not.
set -euo pipefail
export FERRY_TUNING=off
bin=$1 provider=tcp
unset FERRY_SECRET XDG_RUNTIME_DIR
folder=$(mktemp -d)
trap 'kill "${started[@]}" 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
started=()
source "$(dirname "${BASH_SOURCE[0]}")/../ps/dmlc_local.sh"
# Other users may run the programs; the folder of temporary files is everybody's, as /tmp is.
chmod 755 "$folder"
mkdir -m 755 "$folder/bin"
install -m 755 "$bin/pslite_kv_app" "$bin/pslite_connection" "$folder/bin/"
mkdir -m 1777 "$folder/tmp"
export TMPDIR=$folder/tmp

die() { echo "$*"; exit 1; }
# node ROLE PORT PROGRAM...: becomes one of a job with one server and one worker; for subshells.
node() {
  local role=$1 port=$2
  shift 2
  exec env DMLC_ROLE="$role" DMLC_NUM_SERVER=1 DMLC_NUM_WORKER=1 DMLC_PS_ROOT_URI=127.0.0.1 \
    DMLC_PS_ROOT_PORT="$port" FERRY_PROVIDER="$provider" "$@"
}

# Jobs in a row and jobs at once; nothing is left behind.
dmlc_job 2 2 2 "$folder/bin/pslite_kv_app" || die "a job without FERRY_SECRET: $(cat "$folder/job")"
dmlc_job 1 2 2 "$folder/bin/pslite_kv_app" & one=$!
dmlc_job 2 1 1 "$folder/bin/pslite_kv_app" & other=$!
wait $one && wait $other || die "two jobs at once: $(cat "$folder/job")"
left=$(find "$TMPDIR" "/run/user/$UID/tensorferry" -name 'pslite-*' 2>/dev/null || true)
[[ -z $left ]] || die "left behind: $left"

# Files of schedulers that were killed before they named them: those of days ago go, unless one has a lock on them.
if place=$(find "$TMPDIR" "/run/user/$UID" -maxdepth 1 -name "tensorferry*" 2>/dev/null | head -1); [[ -n $place ]]; then
  touch -d '3 days ago' "$place/.new-abandoned" "$place/.new-locked"
  touch "$place/.new-fresh"
  exec 7<"$place/.new-locked"
  flock 7
  dmlc_job 1 1 1 "$folder/bin/pslite_kv_app" || die "a job beside old files: $(cat "$folder/job")"
  exec 7<&-
  files=$(cd "$place" && echo .new-*)
  rm -f "$place"/.new-{abandoned,locked,fresh}
  [[ $files == ".new-fresh .new-locked" ]] || die "files that are left: $files"
fi

# What a killed scheduler leaves behind is not taken for the secret of the next job at its port, whose worker
# comes first.
port=$(free_port)
node scheduler "$port" "$folder/bin/pslite_connection" & scheduler=$!
started+=($scheduler)
secret=
for _ in {1..600}; do
  secret=$(find "$TMPDIR" "/run/user/$UID/tensorferry" -name "pslite-*:$port" 2>/dev/null || true)
  [[ -z $secret ]] || break
  sleep 0.1
done
[[ -n $secret ]] || die "the scheduler has left no secret"
[[ $(stat -c '%a %u' "$secret") == "600 $UID" && $(stat -c '%a %u' "$(dirname "$secret")") == "700 $UID" ]] ||
  die "$(ls -la "$(dirname "$secret")")"
kill -KILL $scheduler
wait $scheduler 2>/dev/null || true
[[ -e $secret ]] || die "the secret of a killed scheduler is gone: this test tries nothing"
pids=()
for role in worker server scheduler; do
  node $role "$port" timeout 100 "$folder/bin/pslite_kv_app" & pids+=($!)
  sleep 0.3
done
started+=("${pids[@]}")
for each in "${pids[@]}"; do wait "$each" || die "a job after one that was killed"; done
[[ ! -e $secret ]] || die "$secret was left behind"

[[ $UID == 0 ]] || { echo "another user can only be tried by root"; exit 0; }
nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups)

# Another user's worker does not get into a job: neither as it is, nor with what the secret once was.
port=$(free_port)
pids=()
for role in scheduler server; do
  node $role "$port" timeout 100 "$folder/bin/pslite_kv_app" 2>"$folder/refused" & pids+=($!)
done
started+=("${pids[@]}")
if (export FERRY_SECRET="ps-lite on the loopback at 127.0.0.1:$port"; node worker "$port" "${nobody[@]}" \
  timeout 100 "$folder/bin/pslite_kv_app" 2>"$folder/guess"); then die "another user has guessed the secret"; fi
grep -qi 'secret' "$folder/guess" || die "$(cat "$folder/guess")"
if (node worker "$port" "${nobody[@]}" timeout 3 "$folder/bin/pslite_kv_app" 2>"$folder/guess"); then
  die "another user's worker took part in the job"
fi
(node worker "$port" timeout 100 "$folder/bin/pslite_kv_app") || die "the user's own worker did not take part"
for each in "${pids[@]}"; do wait "$each" || die "the job of one user, beside another's tries"; done

# A folder that another user has made first is not used.
if [[ -e /run/user/65534 || -e /tmp/tensorferry-65534 ]]; then exit 0; fi
mkdir -m 777 /tmp/tensorferry-65534 # root's
trap 'rmdir /tmp/tensorferry-65534; rm -rf "$folder"' EXIT
unset TMPDIR
if (node scheduler "$port" "${nobody[@]}" timeout 100 "$folder/bin/pslite_kv_app" 2>"$folder/planted"); then
  die "a folder of another user's was used"
fi
grep -q "not this user's alone" "$folder/planted" || die "$(cat "$folder/planted")"
