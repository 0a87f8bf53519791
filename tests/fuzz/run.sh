#!/bin/bash
# Fuzzes every parser under address and undefined-behaviour sanitizers, starting from the corpus in the tree,
# and prints how much of the parsers the runs reached.
#
#   tests/fuzz/run.sh SECONDS [BUILD_FOLDER]     SECONDS per target; the folder defaults to build-fuzz
#
# Inputs found on the way stay in BUILD_FOLDER/found/TARGET and are taken up by the next run there. Exit status:
# 0 nothing found, 1 a finding (its input lies in BUILD_FOLDER), 2 cannot be built or run.
set -euo pipefail

if [[ $# -lt 1 || $# -gt 2 || ! $1 =~ ^[0-9]+$ ]]; then
    sed -n '2,9s/^# \{0,1\}//p' "$0"
    exit 2
fi
seconds=$1
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
mkdir -p "${2:-$root/build-fuzz}"
build=$(cd "${2:-$root/build-fuzz}" && pwd)
targets=(serdes metadata_blob pickle elf ucx_address ucx_key ucx_blocks ucx_link local_frames)
parsers=(src/wire/{container,serdes,desc_list,metadata_blob,pickle_reader}
    engines/local/protocol
    engines/ucx/{address_check,block_message,elf_file,link_message,packed_bytes,rkey_check})

tool() { # tool NAME: the newest version of an LLVM tool on this machine that fits the compiler
    local version
    version=$("${CXX:-clang++}" -dumpversion | cut -d. -f1)
    command -v "$1-$version" || command -v "$1" || {
        echo "$1 is not installed (Debian: llvm)" >&2
        return 1
    }
}

profdata=$(tool llvm-profdata) && cov=$(tool llvm-cov) || exit 2
cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    -DCMAKE_C_COMPILER="${CC:-clang}" -DCMAKE_CXX_COMPILER="${CXX:-clang++}" \
    -DNIXL_BUILD_FUZZERS=ON -DNIXL_SANITIZE=address -DNIXL_BUILD_PYTHON=OFF -DNIXL_BUILD_EXAMPLES=OFF \
    >"$build/configure.log" 2>&1 || { cat "$build/configure.log" >&2; exit 2; }
cmake --build "$build" --target "${targets[@]/#/fuzz_}" >"$build/build.log" 2>&1 ||
    { tail -50 "$build/build.log" >&2; exit 2; }

status=0
for target in "${targets[@]}"; do
    mkdir -p "$build/found/$target"
    binary=$(find "$build" -type f -name "fuzz_$target" -perm -u+x | head -1)
    echo "== $target: $seconds s"
    if LLVM_PROFILE_FILE="$build/$target.profraw" "$binary" -max_total_time="$seconds" -timeout=10 \
        -rss_limit_mb=1024 -max_len=16384 -artifact_prefix="$build/$target-" \
        "$build/found/$target" "$here/corpus/$target" >"$build/$target.log" 2>&1; then
        grep -E '^Done [0-9]+ runs' "$build/$target.log" || true
    else
        status=1
        tail -40 "$build/$target.log"
        echo "$target: a finding; the input is named above"
    fi
done

profiles=()
objects=()
for target in "${targets[@]}"; do
    [[ -s $build/$target.profraw ]] && profiles+=("$build/$target.profraw")
    objects+=(-object "$(find "$build" -type f -name "fuzz_$target" -perm -u+x | head -1)")
done
if [[ ${#profiles[@]} -gt 0 ]]; then
    "$profdata" merge -sparse "${profiles[@]}" -o "$build/coverage.profdata"
    echo "== lines of the parsers reached"
    "$cov" report "${objects[@]:1}" -instr-profile="$build/coverage.profdata" \
        $(printf "$root/%s.cc " "${parsers[@]}") >"$build/coverage.txt"
    awk '/\.cc|^TOTAL/ { printf "%-40s %s\n", $1, $10 }' "$build/coverage.txt"
fi
exit $status
