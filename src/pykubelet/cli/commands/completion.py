"""``pykubelet completion``: print a shell's completion script, which knows words with ``:``, ``/`` and ``=``."""

from typing import Final

import click
from click.shell_completion import get_completion_class

from pykubelet.base.errors import Invalid

_BASH: Final = r"""
# Bash divides words at : and = too: they are joined again for the program, and what bash keeps is cut off its answers.
%(complete_func)s() {
    local IFS=$'\n' line=$COMP_LINE word kept type value i response
    local -a words=()
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if ((i > 0)) && [[ $line != [[:space:]]* ]]; then
            words[-1]+=$word
        else
            words+=("$word")
            line=${line#"${line%%%%[![:space:]]*}"}
        fi
        line=${line#"$word"}
    done
    word=${words[-1]}
    kept=""
    if [[ $word == *:* && $COMP_WORDBREAKS == *:* ]]; then kept=${word%%"${word##*:}"}; fi
    response=$(env COMP_WORDS="${words[*]}" COMP_CWORD=$((${#words[@]} - 1)) %(complete_var)s=bash_complete "$1")
    COMPREPLY=()
    for i in $response; do
        IFS=',' read -r type value <<< "$i"
        if [[ $type == dir ]]; then
            compopt -o dirnames
        elif [[ $type == file ]]; then
            compopt -o default
        elif [[ $type == plain ]]; then
            value=${value#"$kept"}
            COMPREPLY+=("$value")
            if [[ $value == *[:=] ]]; then compopt -o nospace; fi
        fi
    done
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""

_ZSH: Final = r"""
#compdef %(prog_name)s
# The program answers with the value of --option=value alone; a space follows only a word that is complete.
%(complete_func)s() {
    (( ! $+commands[%(prog_name)s] )) && return 1
    local -a response whole parts described
    local type key description answer kept=""
    if [[ $words[CURRENT] == -*=* ]]; then kept="${words[CURRENT]%%%%=*}="; fi
    answer=$(env COMP_WORDS="${words[*]}" COMP_CWORD=$((CURRENT-1)) %(complete_var)s=zsh_complete %(prog_name)s)
    response=("${(@f)answer}")
    for type key description in ${response}; do
        if [[ $type == dir ]]; then
            _path_files -/
        elif [[ $type == file ]]; then
            _path_files -f
        elif [[ $type == plain ]]; then
            key=$kept${key//\\:/:}
            if [[ $key == *[:=/] ]]; then
                parts+=("$key")
            elif [[ $description == _ ]]; then
                whole+=("$key")
            else
                described+=("${key//:/\\:}:$description")
            fi
        fi
    done
    if (( $#described )); then _describe -V unsorted described -U; fi
    if (( $#whole )); then compadd -U -V unsorted -a whole; fi
    if (( $#parts )); then compadd -U -S "" -V unsorted -a parts; fi
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    %(complete_func)s "$@"
else
    compdef %(complete_func)s %(prog_name)s
fi
"""
_FISH: Final = r"""
# The program answers with the value of --option=value alone.
function %(complete_func)s
    set -l word (commandline -ct)
    set -l kept (string match -r -- '^-[^=]*=' $word)
    set -l response (env %(complete_var)s=fish_complete COMP_WORDS=(commandline -cp) COMP_CWORD=$word %(prog_name)s)
    for completion in $response
        set -l found (string split -m 1 "," -- $completion)
        if test "$found[1]" = dir
            __fish_complete_directories $word
        else if test "$found[1]" = file
            __fish_complete_path $word
        else if test "$found[1]" = plain
            string join "" -- $kept $found[2]
        end
    end
end
complete --no-files --command %(prog_name)s --arguments "(%(complete_func)s)"
"""
_SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


@click.command(name="completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script; for bash: source <(pykubelet completion bash)."""
    found = get_completion_class(shell)
    if found is None:
        raise Invalid(f"no completion script for shell {shell}")
    completion = found(ctx.find_root().command, {}, "pykubelet", "_PYKUBELET_COMPLETE")
    click.echo(_SCRIPTS[shell].lstrip() % completion.source_vars())
