# The stages of ./test and the tables they work through. Sourced, not run.
#
# A stage is a function stage_NAME. It may fail as often as it likes: later stages still run.

# name | part of --quick | has gtest cases, so that a filter selects in it | what it does
stages=(
  "format      | no  | no  | layout of the sources (clang-format)"
  "includes    | no  | no  | rooms and private headers (tools/check-includes)"
  "code        | no  | no  | sizes of functions, classes and files; circles of includes (tools/check-code)"
  "docs        | no  | no  | width, links and lists of headers of the documents; figures as their JSON gives them"
  "history     | no  | no  | form of the newest commits (tools/check-history)"
  "release     | yes | yes | unit, contract and multi-process tests, as users run them"
  "scripts     | yes | no  | the program and the examples, from outside"
  "headers     | no  | no  | every header compiles alone"
  "clang       | no  | no  | thread-safety analysis"
  "fuzz        | no  | no  | parsers under libFuzzer, with sanitizers, for a bounded time"
  "tidy        | no  | no  | bug patterns (clang-tidy)"
  "asan        | no  | yes | tests under the address, leak and undefined-behaviour sanitizers"
  "tsan        | no  | yes | tests under the thread sanitizer"
  "install     | no  | no  | a program built against an installed copy"
  "python      | no  | no  | the Python package, built by pip, and from a wheel, in virtual environments"
  "rdma        | no  | yes | tests on kernel verbs (Soft-RoCE) in one guest and across two"
  "long        | no  | yes | an hour of processes that are stopped and continued, beside a load; only with --long"
)

# name | seconds | stages | command, from the build's bin folder. Time is tripled under a sanitizer.
programs=(
  "unit          | 120 | release asan tsan | ferry_unit_tests"
  "train         | 240 | release asan tsan | ferry_train_tests"
  "ps            | 400 | release asan tsan | ferry_ps_tests"
  "contract fake | 240 | release           | ferry_contract_tests --provider=fake"
  "contract tail | 240 | release           | ferry_contract_tests --provider=fake --tail-flags"
  "contract shm  | 240 | release           | ferry_contract_tests --provider=shm"
  "contract tcp  | 240 | release           | ferry_contract_tests --provider=tcp"
  "contract fake | 120 | asan              | ferry_contract_tests --provider=fake --random-ops=10000"
  "contract tail | 240 | asan              | ferry_contract_tests --provider=fake --tail-flags --random-ops=10000"
  "contract shm  | 240 | asan              | ferry_contract_tests --provider=shm --random-ops=10000"
  "contract tcp  | 240 | asan              | ferry_contract_tests --provider=tcp --random-ops=10000"
  "contract fake | 120 | tsan              | ferry_contract_tests --provider=fake --scale=5 --random-ops=2000"
  "contract tail | 240 | tsan              | ferry_contract_tests --provider=fake --tail-flags --scale=5 --random-ops=2000"
  "contract shm  | 120 | tsan              | ferry_contract_tests --provider=shm --scale=5 --random-ops=2000 --peer-mode=same-process"
  "contract tcp  | 120 | tsan              | ferry_contract_tests --provider=tcp --scale=5 --random-ops=2000 --peer-mode=same-process"
  "process       | 240 | release asan      | ferry_process_tests"
  "an hour       | 5400 | long             | ferry_process_tests --storm-seconds=1800 --gtest_filter=*Storm*"
  "grpc on tcp   | 120 | release           | ferry_grpc_tests"
  "grpc on ferry | 120 | release asan      | ferry_grpc_plugin_tests"
  "grpc, static  | 100 | release           | ferry_grpc_static_tests --gtest_filter=GrpcBehaviour.*Stream*:GrpcBehaviour.*Api:GrpcBehaviour.Raw*:GrpcLate.*"
  "grpc, static  | 100 | tsan              | ferry_grpc_static_tests --gtest_filter=GrpcBehaviour.*:GrpcEnds.*-*Callback*"
  "steady        | 240 | release           | ferry_steady_tests"
  "cli           | 120 | release           | ferry_cli_tests"
  "bench         | 120 | release           | ferry_bench_tests"
  "rounds        | 120 | release           | ferry_round_tests"
)

# name | options of tools/rdma-vm | seconds | command, run on every host by bash from the release build's
# bin folder; it finds RDMA_HOST, RDMA_ADDRESS and RDMA_PEER in its environment
guest_programs=(
  "contract verbs, one guest  | --hosts 1               | 300 | ./ferry_contract_tests --provider=verbs --peer-mode=same-process --scale=20 --patience=5 --random-ops=1000"
  "contract verbs, two guests | --hosts 2 --ends-with 1 | 240 | two_guests"
  "contract verbs, lossy wire | --hosts 2 --ends-with 1 --loss 1 | 240 | two_guests --gtest_filter=TwoProcessMail*:TwoProcessTensors*:TwoProcesses.Messages*"
)
# Host 2 serves the suite that host 1 runs, once host 2 listens. Arguments go to the suite.
two_guests='case $RDMA_HOST in
  1) for try in {1..100}; do (exec 3<>/dev/tcp/$RDMA_PEER/7000) 2>/dev/null && break; sleep 0.2; done
     ./ferry_contract_tests --provider=verbs --scale=20 --patience=5 --random-ops=1000 --listen=$RDMA_ADDRESS:0 --connect=$RDMA_PEER:7000 "$@" ;;
  2) ./ferry_contract_tests --provider=verbs --patience=5 --serve-at=$RDMA_ADDRESS:7000 ;;
esac'

tests="tests" # folder of the tests that span files and processes
fuzz_seconds=6

# field N LINE: the Nth field of a table line, without the blanks around it.
field() { cut -d'|' -f"$1" <<<"$2" | sed 's/^ *//; s/ *$//'; }

stage_format() {
  check "clang-format" 120 bash -c 'git ls-files -z "*.h" "*.cc" | xargs -0 -r -n 40 -P 2 clang-format --dry-run -Werror'
}

stage_includes() { check "includes" 60 tools/check-includes; }

stage_code() { check "code" 120 tools/check-code; }

stage_docs() {
  check "docs" 60 tools/check-docs
  check "figures" 60 tools/benchmark-docs --check
}

stage_history() { check "history" 60 tools/check-history; }

stage_headers() {
  build release check_headers && pass
}

# run_programs PRESET STAGE FACTOR [PREFIX...]: the lines of the table that are meant for the stage.
run_programs() {
  local preset=$1 for_stage=$2 factor=$3 line name command program
  shift 3
  build "$preset" ferry ferry-bench ferry-mount ferry_unit_tests ferry_train_tests ferry_ps_tests ferry_contract_tests ferry_process_tests \
    ferry_steady_tests ferry_cli_tests ferry_bench_tests ferry_round_tests ferry_grpc_tests ferry_grpc_plugin_tests ferry_grpc_static_tests || return 0
  for line in "${programs[@]}"; do
    name=$(field 1 "$line")
    [[ " $(field 3 "$line") " == *" $for_stage "* ]] || continue
    read -ra command < <(field 4 "$line")
    program=build/$preset/bin/${command[0]}
    if [[ ! -x $program ]]; then
      skip "$name" "there are no sources for ${command[0]}"
      continue
    fi
    start_gtest "$name" $(($(field 2 "$line") * factor)) "$@" "$program" "${command[@]:1}"
  done
  finish_gtests
}

stage_release() { run_programs release release 1; }

stage_long() { run_programs release long 1; }

stage_asan() {
  export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
  export UBSAN_OPTIONS=print_stacktrace=1
  export FERRY_GRPC_PATIENCE=5
  # shellcheck disable=SC2046
  run_programs asan-ubsan asan 3 $(fixed_addresses)
}

# What a send reads is left out: the sanitizer does not see that whoever received the bytes, and went on to
# change them at their source in the same process, came later.
stage_tsan() {
  export TSAN_OPTIONS=second_deadlock_stack=1:intercept_send=0
  export FERRY_GRPC_PATIENCE=5
  # shellcheck disable=SC2046
  run_programs tsan tsan 3 $(fixed_addresses)
}

# Each scripts/NAME.sh in the folder of tests gets the bin folder as its argument; 0 is passed, 77 skipped.
stage_scripts() {
  local script
  build release all || return 0
  for script in "$tests"/scripts/*.sh; do
    [[ -e $script ]] || continue
    check "$(basename "$script" .sh)" 120 bash "$script" "$top/build/release/bin"
  done
}

stage_clang() { build clang-tsa tensorferry tensorferry_ps tensorferry_train && pass; }

# Two targets at a time: a libFuzzer program is one thread.
stage_fuzz() {
  local names limit name
  build clang-tsa fuzzers || return 0
  names=$(fuzz_targets)
  [[ -n $names ]] || { skip "fuzz" "there are no fuzz targets"; return 0; }
  limit=$(($(wc -l <<<"$names") * fuzz_seconds + 60))
  run tools/limit "$limit" xargs -a <(fuzz_targets) -P 2 -I NAME bash -c \
    'tools/fuzz NAME "$1" >"$2/fuzz-NAME.log" 2>&1; echo $? >"$2/fuzz-NAME.log.status"' - $fuzz_seconds "$logs" || true
  for name in $names; do
    if [[ $(cat "$logs/fuzz-$name.log.status" 2>/dev/null) == 0 ]]; then
      pass
    else
      show_end_of "$logs/fuzz-$name.log"
      fail "$name" "an input breaks it, or it did not end"
    fi
  done
}

# Names of the targets that are built; a program whose source is gone is not one.
fuzz_targets() { find ferry -name '*_fuzz.cc' -printf '%f\n' | sed 's/\.cc$//' | sort; }

stage_tidy() {
  run cmake --preset tidy >"$(log_of configure)" 2>&1 || { fail "configure tidy" "cmake found a problem"; return 0; }
  check "clang-tidy" 1200 tools/tidy
}

stage_install() {
  build release tensorferry_c tensorferry_kvstore tensorferry_pslite tensorferry_job tensorferry_grpc_tensor ferry ferry-bench || return 0
  check "find_package" 300 "$tests/install/run" cmake "$top/build/release"
  check "pkg-config" 300 "$tests/install/run" pkg-config "$top/build/release"
}

stage_python() {
  check "python" 900 python/tests/run
  check "python, from a wheel" 900 tools/wheel --test
}

stage_rdma() {
  local line name limit command log status options
  build release ferry ferry_contract_tests ferry_ps_tests ferry_grpc_plugin_tests || return 0
  log=$(log_of prepare)
  if ! run tools/rdma-vm --prepare $([[ $install == 1 ]] || echo --no-install) >"$log" 2>&1; then
    if [[ $install == 1 ]]; then fail "rdma-vm" "$(tail -n 1 "$log")"; else skip "rdma-vm" "$(tail -n 1 "$log")"; fi
    return 0
  fi
  if [[ -z $filter ]]; then
    check "rdma-vm, two guests" 120 tools/rdma-vm --timeout 100 --hosts 2 -- "$tests/rdma/pingpong.sh"
    check "training over verbs, two guests" 240 tools/rdma-vm --timeout 220 --hosts 2 -- "$tests/rdma/train.sh" build/release/bin
    check "parameter server over verbs, two guests" 240 tools/rdma-vm --timeout 220 --hosts 2 -- "$tests/rdma/ps.sh" build/release/bin
    if [[ -x build/release/bin/ferry_grpc_plugin_tests ]]; then
      check "gRPC by verbs, two guests" 260 tools/rdma-vm --timeout 240 --hosts 2 --ends-with 2 -- \
        bash -c "cd build/release/bin && $top/$tests/rdma/grpc.sh"
    fi
  fi
  for line in "${guest_programs[@]}"; do
    name=$(field 1 "$line") limit=$(field 3 "$line") command=$(field 4- "$line")
    [[ $command != two_guests* ]] || command="set -- ${command#two_guests}; $two_guests"
    [[ -x build/release/bin/ferry_contract_tests ]] || { skip "$name" "there are no sources for ferry_contract_tests"; continue; }
    read -ra options < <(field 2 "$line")
    log=$(log_of "$name") status=0
    run tools/rdma-vm "${options[@]}" --timeout "$limit" -- env GTEST_COLOR=no GTEST_FILTER="${filter:-*}" \
      bash -c "cd build/release/bin && $command" >"$log" 2>&1 || status=$?
    count_guests "$name" "$log" "$status" "$limit"
  done
}

# Counts the cases of each guest that ran any by itself: their lines are mixed in the log.
count_guests() {
  local name=$1 log=$2 status=$3 limit=$4 host counted=0
  for host in 1 2; do
    sed -n "s/^$host| //p" "$log" >"$log.$host"
    grep -q '^\[ RUN ' "$log.$host" || continue
    counted=1
    count_gtest "$name" "$log.$host" "$status" "$limit"
  done
  [[ $counted == 1 || (-n $filter && $status == 0) ]] || { show_end_of "$log"; fail "$name" "no test ran; exit status $status"; }
}
