#!/usr/bin/env bash
# Sets up what is missing on Debian 12 or 13, or Ubuntu 24.04 or 26.04, then:
#   ./run.sh                 runs the default experiment, ending with a verdict and the path of the report
#   ./run.sh test [ARGS]     runs the tests (ARGS go to pytest)
#   ./run.sh test fast       runs those that need no root, Java or browser, in a few minutes
#   ./run.sh setup           only sets up
#   ./run.sh bench           lists the benchmarks; `bench NAME` runs one
#   ./run.sh COMMAND [ARGS]  cbcb COMMAND ARGS (./run.sh --help lists the commands)
set -euo pipefail

root=$(dirname "$(readlink -f "$0")")
venv=$root/.venv
# Neither Python may import from the working folder: root runs what it imports.
python=(/usr/bin/python3 -I)
# `su` without a dash keeps the user's PATH, which lacks the folders of ip, tc and nft.
export PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
venv_python=("$venv/bin/python" -P)
# A user's settings of pip may name other places than the environment. An empty value counts as none.
into_environment=(env -u PIP_ROOT PIP_TARGET= PIP_PREFIX= PIP_USER=0)
# Tests that need these are skipped without them.
test_packages=(lua5.2 lua5.3 lua5.4 chromium zsh fish)
# Command -> package: what `cbcb doctor` looks for. The others are what the set-up itself and Mininet need.
commands=$root/testbed/machine/commands.txt
packages=(kmod procps python3 python3-venv)

say() { printf 'run.sh: %s\n' "$*" >&2; }
fail() { say "$1"; exit 3; }
network="is there a network? Behind a proxy, \`sudo -E\` keeps the variables that name it"

# Whether a package is installed; the user may have put it on hold.
is_installed() { [[ $(dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2>/dev/null) == ?i* ]]; }

# Sets `missing` to the packages that are not installed.
find_missing_packages() {
    local command package java
    missing=()
    while read -r command package; do
        case $command in
            "" | "#"*) ;;
            java) java=$package ;; # another Java will do, if it is new enough
            *) [[ " ${packages[*]} " == *" $package "* ]] || packages+=("$package") ;;
        esac
    done <"$commands"
    for package in "${packages[@]}"; do
        is_installed "$package" || missing+=("$package")
    done
    java_is_new_enough || missing+=("$java")
}

install_packages() {
    ((${#missing[@]})) || return 0
    command -v apt-get >/dev/null || fail "missing: ${missing[*]}; this system has no apt-get: install them by hand"
    say "installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    # A fresh machine often updates itself at first, and holds the lock meanwhile.
    apt-get -qq -o DPkg::Lock::Timeout=300 update || fail "apt-get update failed: $network"
    apt-get -qq -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "${missing[@]}" >/dev/null ||
        fail "could not install: apt-get install -y ${missing[*]}"
}

install_test_packages() {
    local missing=() package
    command -v apt-get >/dev/null || return 0
    for package in "${test_packages[@]}"; do
        is_installed "$package" && continue
        # Ubuntu has Chromium as a snap only; a package that merely fetches it is of no use here.
        LC_ALL=C apt-cache show --no-all-versions "$package" 2>/dev/null | grep -qi '^Depends:.*snapd' && continue
        [[ $(LC_ALL=C apt-cache policy "$package" 2>/dev/null) == *"Candidate: "[0-9]* ]] && missing+=("$package")
    done
    ((${#missing[@]})) || return 0
    say "installing ${missing[*]}, for the tests"
    DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 install -y --no-install-recommends \
        "${missing[@]}" >/dev/null || say "could not install them: the tests that need them are skipped"
}

java_is_new_enough() {
    local version
    # Spark starts the Java of JAVA_HOME, and without it that of PATH.
    version=$("${JAVA_HOME:+$JAVA_HOME/bin/}java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1) || return 1
    [[ -n $version && $version -ge 17 ]]
}

# The contents of .venv/stamp when the environment is complete.
environment_stamp() {
    "${python[@]}" -V
    echo "$root"
    sha256sum <"$root/requirements.lock"
    sha256sum <"$root/build-constraints.txt"
}

environment_is_current() { [[ -f $venv/stamp && $(<"$venv/stamp") == "$(environment_stamp)" ]]; }

make_environment() {
    # The system's own Python, because Mininet's module belongs to it.
    "${python[@]}" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        fail "${python[0]} is $("${python[@]}" -V 2>&1); 3.11 or newer is needed (Debian 12 or 13, Ubuntu 24.04 or 26.04)"
    environment_is_current && return 0
    say "making the Python environment (.venv): some minutes, once"
    rm -rf "$venv"
    "${python[@]}" -m venv "$venv" || fail "cannot make $venv: apt-get install -y python3-venv"
    local pip=("${into_environment[@]}" "${venv_python[@]}" -m pip install --quiet --disable-pip-version-check --progress-bar off)
    pip+=(--no-deps --require-hashes)
    # The lock's own pip first: an older one does not know constraints of builds.
    "${pip[@]}" --requirement <(sed -n '/^pip==/,/[^\\]$/p' "$root/requirements.lock") ||
        fail "pip could not install the pip of requirements.lock: $network"
    # Ryu's source runs a set-up of its own, for an old setuptools: its wheel is here, built once (CONTRIBUTING.md).
    "${pip[@]}" --find-links "$root/wheels" --build-constraint "$root/build-constraints.txt" --requirement "$root/requirements.lock" ||
        fail "pip could not install requirements.lock: $network"
    local site mininet
    site=$("${venv_python[@]}" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    mininet=$("${python[@]}" -c 'import mininet, os; print(os.path.dirname(mininet.__file__))') ||
        fail "${python[0]} has no module mininet: apt-get install --reinstall -y mininet"
    echo "$root" >"$site/cbcb-testbed.pth"
    ln -sfn "$mininet" "$site/mininet"
    # Compiled now, so that the first run does not wait for it.
    "${venv_python[@]}" -c 'from testbed.machine.checks import warm; warm()' || fail "matching and forwarding cannot be compiled"
    "${venv_python[@]}" -c 'from captures.spark.session import archive_classes; archive_classes()' >"$venv/spark.log" 2>&1 ||
        say "sessions of Spark will start slower; $venv/spark.log says why"
    environment_stamp >"$venv/stamp"
}

# The command `cbcb`.
command_text() {
    # A shell starts the interpreter, because the kernel allows no spaces in the path of an interpreter; Python
    # reads the second and the third line as a string. Ctrl-C while the modules load is no fault either.
    printf '%s\n' "#!/bin/sh
'''exec' \"$venv/bin/python\" -P \"\$0\" \"\$@\"
' '''
import sys
try:
    from testbed.cli.main import main
    status = main()
except KeyboardInterrupt:
    print('cbcb: interrupted', file=sys.stderr)
    status = 130
sys.exit(status)"
}

command_is_current() { [[ -x $venv/bin/cbcb && $(<"$venv/bin/cbcb") == "$(command_text)" ]]; }

write_command() {
    command_is_current && return 0
    # Moved into its place: the old one may be starting just now.
    command_text >"$venv/bin/cbcb.new"
    chmod +x "$venv/bin/cbcb.new"
    mv "$venv/bin/cbcb.new" "$venv/bin/cbcb"
}

setup() {
    local missing
    find_missing_packages
    # Commands that need no root, such as simulate and query, run without it once all is set up.
    if ((EUID != 0)); then
        ((${#missing[@]} == 0)) && environment_is_current && command_is_current && return 0
        fail "root is needed to set up this machine: sudo $0 $*"
    fi
    # Two set-ups at once would build one environment. What is started meanwhile must not inherit the lock:
    # a daemon would keep it for ever.
    [[ -w $root ]] || fail "$root cannot be written: the environment is made in it"
    exec 9>"$root/.setup.lock"
    flock -w 900 9 || fail "another set-up has held $root/.setup.lock for 15 minutes"
    install_packages 9>&-
    make_environment 9>&-
    write_command 9>&-
    exec 9>&-
}

# Few tests that failed beside all others run once more by themselves: a fault is told apart from what two suites at
# once do to a small machine. What passes only then is named at the end. Arguments: the cache of pytest, the tests.
run_again() {
    local names
    mapfile -t names < <("${venv_python[@]}" -c 'import json, sys; print(*json.load(open(sys.argv[1])), sep="\n")' \
        "$1/v/cache/lastfailed" 2>/dev/null)
    ((${#names[@]} <= 10)) || return 1
    "$venv/bin/pytest" -o "cache_dir=$1" --last-failed --last-failed-no-failures none "${@:2}" || return 1
    unstable+=("${names[@]}")
}

run_tests() {
    cd "$root"
    # pytest ends in order by Ctrl-C, so that the shell would go on with the next command.
    trap 'exit 130' INT HUP
    local failed=() unstable=() real_passed=1 others_passed=1
    local real=(tests/emulation) others=(tests/bench tests/conformance tests/properties tests/spark tests/unit)
    # tests/conftest.py says which tests share a process.
    local parallel=(-q --hypothesis-profile=repeatable --no-loadscope-reorder)
    "$venv/bin/ruff" format --check . || failed+=("ruff format --check")
    "$venv/bin/ruff" check . || failed+=("ruff check")
    (($# == 0)) || "$venv/bin/mypy" || failed+=(mypy)
    "$venv/bin/codespell" || failed+=(codespell)
    if [[ ${1-} == fast ]]; then
        "$venv/bin/pytest" "${parallel[@]}" -n auto -m "not (root or emulation or spark or browser)" \
            tests/conformance tests/unit "${@:2}" || failed+=(pytest)
    elif (($#)); then
        "$venv/bin/pytest" "$@" || failed+=(pytest)
    else
        # Emulations wait for much of their time: two at once, on any machine. The other tests, and mypy, run meanwhile
        # on all processors, at a low priority, and are printed at the end.
        log=$(mktemp)
        set -m # else the tests, and all that they start, would ignore Ctrl-C
        nice -n 10 "$venv/bin/mypy" >>"$log" 2>&1 &
        mypy_pid=$!
        nice -n 10 "$venv/bin/pytest" -o cache_dir=.pytest_cache/others "${parallel[@]}" -n auto "${others[@]}" >>"$log" 2>&1 &
        others_pid=$!
        set +m
        trap 'kill -INT "$others_pid" "$mypy_pid" 2>/dev/null && wait "$others_pid" || :; cat "$log"; rm -f "$log"' EXIT
        "$venv/bin/pytest" -o cache_dir=.pytest_cache/real "${parallel[@]}" -n 2 "${real[@]}" || real_passed=0
        wait "$mypy_pid" || failed+=(mypy)
        wait "$others_pid" || others_passed=0
        cat "$log"
        : >"$log"
        ((real_passed)) || run_again .pytest_cache/real "${real[@]}" || failed+=("pytest ${real[*]}")
        ((others_passed)) || run_again .pytest_cache/others "${others[@]}" || failed+=("pytest ${others[*]}")
    fi
    # What a check printed stands above everything that the tests printed.
    local check
    ((${#unstable[@]} == 0)) || say "failed at first, passed by themselves: ${unstable[*]}"
    for check in "${failed[@]}"; do say "failed: $check"; done
    ((${#failed[@]} == 0))
}

case ${1-} in
    -h | --help)
        sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"
        if [[ -x $venv/bin/cbcb ]]; then exec "$venv/bin/cbcb" --help; fi
        ;;
    setup) setup ;;
    test)
        setup test
        install_test_packages
        run_tests "${@:2}"
        ;;
    bench)
        setup bench
        # Of the installed packages, too, there is one of the name `tests`.
        PYTHONPATH=$root exec "${venv_python[@]}" -m tests.bench "${@:2}"
        ;;
    "")
        setup
        exec "$venv/bin/cbcb" run
        ;;
    *)
        setup "$@"
        exec "$venv/bin/cbcb" "$@"
        ;;
esac
