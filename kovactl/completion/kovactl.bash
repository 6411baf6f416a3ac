# Completion of kovactl for bash: commands, actions, options, and policies as the agent tells them.
# Installed as /usr/share/bash-completion/completions/kovactl, or: source kovactl.bash

# The policies of the agent that the command line names; nothing when it does not answer at once.
_kovactl_policies() {
	local i agent=() command=${COMP_WORDS[0]}

	# bash splits words at the colon of HOST:PORT: puts them together again.
	for ((i = 1; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		--agent) agent=(--agent "${COMP_WORDS[i + 1]}")
			[[ ${COMP_WORDS[i + 2]-} == : ]] && agent[1]+=:${COMP_WORDS[i + 3]-} ;;
		--token-file | --ca | --cert | --key) agent+=("${COMP_WORDS[i]}" "${COMP_WORDS[i + 1]}") ;;
		--tls) agent+=(--tls) ;;
		esac
	done
	timeout 1 "$command" policies list --names "${agent[@]}" 2>/dev/null
}

# Words of the command line before the cursor that are no options and no values of options.
_kovactl_words() {
	local i skip='' word

	words=()
	for ((i = 1; i < COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		if [[ -n $skip ]]; then
			skip=
		elif [[ $word == -- ]]; then
			rest=$((i + 1))
			return
		elif [[ $word == : ]]; then
			skip=1
		elif [[ " $valued " == *" $word "* ]]; then
			skip=1
		elif [[ $word == --and ]]; then
			words=("${words[0]}")
		elif [[ $word != -* ]]; then
			words+=("$word")
		fi
	done
}

_kovactl() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} words=() rest='' list=''
	local commands='take peek wait watch top policies override pool usage plan home members config doctor'
	local common='--agent --token-file --tls --ca --cert --key --json --help'
	local valued='--agent --token-file --ca --cert --key --cost --wait --id --timeout --every --count --limit --per --burst --weight --until --for --name --target --session --tier --status --retry-after --definition'

	case $prev in
	--token-file | --ca | --cert | --key | --definition)
		COMPREPLY=($(compgen -f -- "$cur"))
		return
		;;
	--wait | --timeout | --every | --per | --for)
		COMPREPLY=($(compgen -W '250ms 1s 10s 1m 1h 1d' -- "$cur"))
		return
		;;
	--agent | --target | --session | --tier | --status | --retry-after | --cost | --id | --count | --limit | --burst | --weight | --until | --name)
		return
		;;
	esac

	_kovactl_words
	if [[ -n $rest ]]; then
		if [[ ${words[0]-} == wait ]] && declare -F _command_offset >/dev/null; then
			_command_offset "$rest"
		fi
		return
	fi
	if [[ $cur == -* ]]; then
		case ${words[0]-} in
		'') list='--help --version' ;;
		take) list="--cost --and --wait --id --receipt $common" ;;
		wait) list="--timeout --cost -- $common" ;;
		watch) list="--every --count $common" ;;
		top) list="--limit --every --count $common" ;;
		policies) list="--names $common" ;;
		config) list="--limit --force $common" ;;
		override) list="--limit --per --burst --weight --unlimited --banned --prefix --until --for $common" ;;
		plan) list="--name --policy $common" ;;
		pool) list="--target --session --tier --wait --status --retry-after --definition --every --count $common" ;;
		*) list=$common ;;
		esac
	else
		case ${words[0]-}:${#words[@]}:${words[1]-} in
		:*) list="$commands help" ;;
		take:1:* | peek:1:* | wait:1:* | watch:1:* | top:1:* | usage:1:*) list=$(_kovactl_policies) ;;
		policies:1:*) list='list show put delete' ;;
		policies:2:show | policies:*:delete) list=$(_kovactl_policies) ;;
		policies:2:put | config:2:check)
			COMPREPLY=($(compgen -f -- "$cur"))
			return
			;;
		override:1:*) list='list set delete' ;;
		override:2:*) list=$(_kovactl_policies) ;;
		pool:1:*) list='list show watch next report enable disable drain import' ;;
		pool:3:import)
			COMPREPLY=($(compgen -f -- "$cur"))
			return
			;;
		config:1:*) list='show check log diff rollback' ;;
		help:1:*) list=$commands ;;
		esac
	fi
	COMPREPLY=($(compgen -W "$list" -- "$cur"))
}

complete -F _kovactl kovactl
