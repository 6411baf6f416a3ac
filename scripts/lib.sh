# shellcheck shell=bash
# What scripts/run, scripts/test, scripts/build and .ci/run share: installing packages, building, counting tests.
# Sourced, never run. Sets root to the repository.

set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
jobs=${KOVA_JOBS:-$(nproc 2>/dev/null || echo 2)}

say() {
	printf '\033[1m==>\033[0m %s\n' "$*" >&2
}

die() {
	printf 'error: %s\n' "$*" >&2
	exit 1
}

distribution() {
	# shellcheck disable=SC1091
	(. /etc/os-release 2>/dev/null && echo "${VERSION_CODENAME:-unknown}") || echo unknown
}

# ---- packages --------------------------------------------------------------------------------------------------------

# A specification is `package`, `package|package` (any of them will do, the first that exists is installed) or
# `command=package` (needed only where there is no such command).
packages_to_build() {
	echo gcc libc6-dev cmake ninja-build pkg-config git ca-certificates
	echo libuv1-dev libjansson-dev libssl-dev libcurl4-openssl-dev
	echo librdkafka-dev libprotobuf-c-dev protobuf-c-compiler libnghttp2-dev
	echo 'libllhttp-dev|node-llhttp'
	if [ "$(distribution)" = bookworm ]; then
		echo pip3=python3-pip # its hiredis is too old: the C sources come from PyPI's hiredis, see cmake/hiredis.cmake
	else
		echo libhiredis-dev
	fi
}

# The demonstration's calendar has a time zone; the README's five minutes are redis-cli (a part of redis-server's
# packages) and curl.
packages_to_run() {
	echo redis-server tzdata curl=curl
}

packages_to_package() {
	echo dpkg-dev file
}

packages_to_test() {
	echo libcriterion-dev python3 python3-venv redis-server redis-tools tzdata curl nginx haproxy openssl procps
	echo mandoc man=man-db
	echo node=nodejs npm=npm go=golang-go
	case $(distribution) in
	bookworm | trixie) echo chromium=chromium ;; # Ubuntu has it as a snap only: the dashboard's test is skipped there
	esac
	echo mvn=maven java=default-jre-headless python3-jsonschema # a real Kafka: scripts/kafka
	echo prometheus python3-yaml kcat jq                      # what is in deploy/, docs/consumers.md
}

package_installed() {
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# Whether the specification is met already.
package_met() {
	local spec=$1 name
	if [[ $spec == *=* ]]; then
		command -v "${spec%%=*}" >/dev/null && return 0
		package_installed "${spec#*=}"
		return
	fi
	for name in ${spec//|/ }; do
		package_installed "$name" && return 0
	done
	return 1
}

package_known() {
	apt-cache show --no-all-versions "$1" >/dev/null 2>&1
}

# The package to install for a specification: the first alternative that apt knows.
package_choice() {
	local spec=${1#*=} name
	for name in ${spec//|/ }; do
		package_known "$name" && echo "$name" && return
	done
	die "none of the packages ${spec//|/, } is available here"
}

may_be_root() {
	[ "$(id -u)" = 0 ] || command -v sudo >/dev/null
}

as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	else
		sudo -- "$@"
	fi
}

# Installs without starting the services that come along: Kova and its tests start their own.
apt_install() {
	local policy=/usr/sbin/policy-rc.d made=no status=0
	if [ ! -e "$policy" ]; then
		printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
		as_root chmod 755 "$policy"
		made=yes
	fi
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -y -q --no-install-recommends \
		-o DPkg::Lock::Timeout=300 install "$@" </dev/null >&2 || status=$?
	[ "$made" = no ] || as_root rm -f "$policy"
	return "$status"
}

# install_packages SPECIFICATION…: nothing to do takes no time and no apt.
install_packages() {
	local spec missing=() chosen=()
	for spec in "$@"; do
		package_met "$spec" || missing+=("$spec")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	command -v apt-get >/dev/null || die "needs ${missing[*]}: install them (no apt-get here)"
	if may_be_root; then
		say "installing ${missing[*]}"
		as_root apt-get -q -o DPkg::Lock::Timeout=300 update </dev/null >&2
	fi
	for spec in "${missing[@]}"; do
		chosen+=("$(package_choice "$spec")")
	done
	may_be_root || die "packages are missing, and here is neither root nor sudo; as root: apt-get install ${chosen[*]}"
	apt_install "${chosen[@]}"
}

# ---- building --------------------------------------------------------------------------------------------------------

# configure PRESET DIRECTORY [cmake option…]
configure() {
	local preset=$1 directory=$2
	shift 2
	mkdir -p "$directory"
	if ! (cd "$root" && cmake --preset "$preset" -B "$directory" "$@") >"$directory/configure.log" 2>&1; then
		cat "$directory/configure.log" >&2
		die "cmake could not configure $directory"
	fi
}

# ---- tests -----------------------------------------------------------------------------------------------------------

# An attribute of the <testsuite> of a JUnit file that ctest wrote.
junit_count() {
	sed -n "s/.*[[:space:]]$2=\"\([0-9]*\)\".*/\1/p" "$1" | head -n 1
}

# counting_line PASSED FAILED SKIPPED: the line by which the tests are counted.
counting_line() {
	if [ "$3" -gt 0 ]; then
		echo "$1 passed, $2 failed, $3 skipped"
	else
		echo "$1 passed, $2 failed"
	fi
}

# The ten tests of such a file that took longest, in a line.
junit_slowest() {
	sed -n 's/.*<testcase name="\([^"]*\)".* time="\([0-9]*\)[.0-9]*".*/\2 \1/p' "$1" | sort -rn | head -n 10 |
		sed 's/\([0-9]*\) \(.*\)/\2 \1 s/' | paste -sd, | sed 's/,/, /g; s/^/slowest: /'
}

# run_ctest DIRECTORY [ctest argument…]: sets passed, failed and skipped; 0 when there were tests and none failed.
run_ctest() {
	local directory=$1 junit="$1/junit.xml" total
	shift
	rm -f "$junit"
	# PROCESSORS of the tests count sixths of processors: see cmake/tests.cmake.
	ctest --test-dir "$directory" --output-on-failure --output-junit "$junit" -j "$((6 * jobs))" "$@" </dev/null || true
	[ -s "$junit" ] || { passed=0 failed=1 skipped=0 && return 1; }
	total=$(junit_count "$junit" tests)
	failed=$(junit_count "$junit" failures)
	skipped=$(($(junit_count "$junit" skipped) + $(junit_count "$junit" disabled)))
	# shellcheck disable=SC2034 # read by the caller
	passed=$((total - failed - skipped))
	junit_slowest "$junit"
	grep -h '^SKIPPED: ' "$directory/Testing/Temporary/LastTest.log" || true
	[ "$total" -gt 0 ] || { echo "no test was run" && failed=1; }
	[ "$failed" -eq 0 ]
}
