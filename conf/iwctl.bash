# SPDX-License-Identifier: MIT
# bash completion for iwctl, which is also iwarpctl

_iwctl() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
	local commands="status top metrics streams events why check peers devices stags reasons check-policy upgrade downgrade close service doctor report rping"
	local word found=

	case $prev in
	-r | --run-dir)
		mapfile -t COMPREPLY < <(compgen -d -- "$cur")
		return
		;;
	why)
		mapfile -t COMPREPLY < <(compgen -W "$(pgrep . 2>/dev/null)" -- "$cur")
		return
		;;
	service)
		mapfile -t COMPREPLY < <(compgen -W "$(systemctl list-units --plain --no-legend --type=service 2>/dev/null | sed 's/\.service .*//')" -- "$cur")
		return
		;;
	doctor)
		mapfile -t COMPREPLY < <(compgen -W "$(systemctl list-units --plain --no-legend --type=service 2>/dev/null | sed 's/\.service .*//') $(pgrep . 2>/dev/null)" -A hostname -- "$cur")
		return
		;;
	check-policy)
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	check)
		mapfile -t COMPREPLY < <(compgen -A hostname -- "$cur")
		return
		;;
	esac
	for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
		case " $commands " in *" $word "*) found=${found:-$word} ;; esac
	done
	if [[ $found == rping ]]; then
		case $prev in
		-a | --address) mapfile -t COMPREPLY < <(compgen -A hostname -- "$cur") ;;
		--crc) mapfile -t COMPREPLY < <(compgen -W "on off" -- "$cur") ;;
		--mpa-revision) mapfile -t COMPREPLY < <(compgen -W "1 2" -- "$cur") ;;
		*) mapfile -t COMPREPLY < <(compgen -W "--client --server --address --port --count --size --verbose --validate \
			--persistent --crc --p2p --markers --mpa-revision --timeout --help" -- "$cur") ;;
		esac
	elif [[ $found == close ]]; then
		case $prev in
		-u | --user) mapfile -t COMPREPLY < <(compgen -A user -- "$cur") ;;
		-i | --idle) ;;
		*) mapfile -t COMPREPLY < <(compgen -W "--idle --user --json --help" -- "$cur") ;;
		esac
	elif [[ $found == service ]]; then
		mapfile -t COMPREPLY < <(compgen -W "on off check --dry-run --restart --json --help" -- "$cur")
	elif [[ $found == metrics ]]; then
		mapfile -t COMPREPLY < <(compgen -W "--http --json --help" -- "$cur")
	elif [[ $found == report ]]; then
		case $prev in
		-o | --output) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
		*) mapfile -t COMPREPLY < <(compgen -W "--output --json --run-dir --system --help" -- "$cur") ;;
		esac
	elif [[ $found == doctor ]]; then
		mapfile -t COMPREPLY < <(compgen -W "--json --help" -- "$cur")
	elif [[ $found == streams || $found == peers || $found == devices || $found == stags || $found == reasons ]]; then
		case $prev in
		-c | --columns | -o | --sort) mapfile -t COMPREPLY < <(compgen -W "$(iwctl "$found" --help 2>/dev/null |
			sed -n 's/^columns: //p' | tr -d ,)" -- "$cur") ;;
		-f | --filter) mapfile -t COMPREPLY < <(compgen -W "program= peer= port= user= transport= reason=" -- "$cur") ;;
		-w | --watch) ;;
		*) mapfile -t COMPREPLY < <(compgen -W "--columns --sort --filter --watch --ended --json --run-dir --system --help" -- "$cur") ;;
		esac
	elif [[ $found == top ]]; then
		case $prev in
		-d | --delay | -n | --count) ;;
		*) mapfile -t COMPREPLY < <(compgen -W "--delay --count --json --run-dir --system --help" -- "$cur") ;;
		esac
	elif [[ $found == events ]]; then
		case $prev in
		-n | --count) ;;
		*) mapfile -t COMPREPLY < <(compgen -W "--count --json --run-dir --system --help" -- "$cur") ;;
		esac
	elif [[ $found == upgrade || $found == downgrade ]]; then
		mapfile -t COMPREPLY < <(compgen -W "--json --help" -- "$cur")
	elif [[ $cur == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "--json --run-dir --system --version --help" -- "$cur")
	elif [[ -z $found ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$cur")
	fi
}
complete -F _iwctl iwarpctl
# Debian's iwd has another iwctl
[[ ! $(type -P iwarpctl) || $(type -P iwctl) -ef $(type -P iwarpctl) ]] && complete -F _iwctl iwctl
