#!/usr/bin/env bash
# Pages through a pool of proxies: next, use, report. Needs kovactl and curl 7.83 or later.
#
# usage: fetch.sh URL…      prints a line for each page. Exit status 75: no endpoint now, ask again later; 69: no agent; 1: no page
# KOVA_AGENT  KOVA_TOKEN    the agent's RESP address and the token that it wants, as kovactl has them
# KOVA_WAIT                 how long to wait for an endpoint: 30s fits a batch job; 0s is for where somebody waits for the answer
# KOVA_WHEN_AWAY            what is done without an agent: "stop", the default, or "direct"
set -euo pipefail

pool=exits
wait=${KOVA_WAIT:-30s}
tries=5
page=$(mktemp)
trap 'rm -f "$page"' EXIT

# next TARGET: fills `given`. Status 75: there is no endpoint now; 69: there is no agent.
declare -A given
next() {
	local answer status=0 name value
	given=()
	answer=$(kovactl pool next "$pool" --target "$1" --wait "$wait") || status=$?
	while read -r name value; do
		[ -z "$name" ] || given[$name]=$value
	done <<<"$answer"
	case $status in
	0) return 0 ;;
	1)
		echo "paused: ${given[paused]}, retry in ${given[retry_in_ms]} ms" >&2
		return 75
		;;
	3) ;;
	*) return 1 ;; # kovactl has said why
	esac
	# Yours to choose: to stop keeps every limit; to go on leaves this machine's own address to the site, and nobody counts.
	[ "${KOVA_WHEN_AWAY:-stop}" = direct ] || return 69
	given=([endpoint]=direct)
}

# How curl fared, from its exit status and the statuses of page and CONNECT. What a challenge looks like depends on the site: the
# line with grep is yours.
outcome_of() {
	case $1:$2:$3 in
	0:403:* | 0:429:*) echo blocked ;;
	0:407:* | *:407) echo auth ;;
	0:[45]??:*) echo target ;;
	0:*) if grep -q captcha "$page"; then echo captcha; elif [ -s "$page" ]; then echo ok; else echo empty; fi ;;
	1:* | 3:* | 4:*) echo cancelled ;; # a URL or an endpoint that curl does not serve
	28:*) echo timeout ;;
	35:* | 60:*) echo target ;;
	*:[1-9]??) if [ "$3" = 200 ]; then echo refused; else echo tunnel; fi ;;
	*) echo refused ;;
	esac
}

# get URL: the page in a file, and its outcome, status (000: there is no page) and Retry-After in a line. The address goes by curl's
# standard input: in an argument everybody on this machine would see its password. An empty `noproxy`, lest $NO_PROXY counts.
get() {
	local address=${given[address]:-} status=0 said http connect retry_after
	: >"$page"
	case ${address,,} in
	'' | http://* | https://* | socks4://* | socks4a://* | socks5://* | socks5h://*) ;;
	*)
		echo cancelled 000
		return
		;;
	esac
	said=$(printf 'proxy = "%s"\nnoproxy = ""\n' "$address" |
		curl --config - --silent --location --connect-timeout 5 --max-time 30 --output "$page" \
			--write-out '%{http_code} %{http_connect} %header{retry-after}' "$1") || status=$?
	read -r http connect retry_after <<<"$said"
	[ "$status" = 0 ] || http=000
	echo "$(outcome_of "$status" "$http" "$connect") $http $retry_after"
}

report() {
	local outcome=$1 status=$2 retry_after=$3 more=()
	[ -n "${given[ticket]:-}" ] || return 0
	[ "$status" = 000 ] || more+=(--status "$status")
	[ -z "$retry_after" ] || more+=(--retry-after "$retry_after")
	kovactl pool report "$pool" "${given[ticket]}" "$outcome" "${more[@]}" >&2 || true # otherwise the ticket's lease ends by itself
}

fetch() {
	local url=$1 host outcome status retry_after i
	host=${url#*://}
	for ((i = 0; i < tries; i++)); do
		next "${host%%[/:?#]*}" || return
		read -r outcome status retry_after < <(get "$url")
		report "$outcome" "$status" "$retry_after"
		case $outcome:$status in
		ok:* | target:[1-9]*)
			echo "$status $url $(wc -c <"$page") by ${given[endpoint]}"
			return 0
			;;
		target:*) outcome='target: no TLS with the site' && break ;;
		cancelled:*) outcome='cancelled: not a URL or not an endpoint that curl can use' && break ;;
		esac
	done
	echo "failed: $url: $outcome" >&2
	return 1
}

for url in "$@"; do
	while :; do
		status=0
		fetch "$url" || status=$?
		if [ "$status" != 75 ] || [ "$wait" = 0s ]; then
			break
		fi
		ms=${given[retry_in_ms]}
		sleep "$((ms > 1000 ? (ms + 999) / 1000 : 1))"
	done
	[ "$status" = 0 ] || exit "$status"
done
