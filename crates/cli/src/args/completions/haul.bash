# Completion of haul for bash(1).

@HOSTS@
# Adds those of the words $1 that fit, each with $2 behind it.
_haul_add() {
    mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -P "${typed%"$word"}" -S "$2" -W "$1" -- "$word")
}

_haul_nothing() {
    compopt +o default
}

# readline completes them.
_haul_files() {
    :
}

_haul_words() {
    compopt +o default
    _haul_add "$*" ' '
}

# Adds hosts, with $1 behind each.
_haul_add_hosts() {
    [[ $typed == */* ]] || word=${typed##*@}
    _haul_add "$(_haul_known_hosts)" "$1"
    word=$typed
}

_haul_hosts() {
    compopt +o default
    _haul_add_hosts ' '
}

# Adds paths on the host of a word, through its shared login.
_haul_remote_paths() {
    local path
    while IFS= read -r path; do
        [[ $path == */ ]] && printf -v path '%q' "$path" || printf -v path '%q ' "$path"
        COMPREPLY+=("$path")
    done < <("${COMP_WORDS[0]}" completions paths "$typed" 2>/dev/null)
}

_haul_locations() {
    if [[ $typed == *:* && ${typed%%:*} != */* ]]; then
        compopt +o default
        _haul_remote_paths
        return
    fi
    (( at > 1 )) || _haul_add '@COMMANDS@' ' '
    _haul_add_hosts :
    # Where nothing else fits, readline completes files.
    (( ${#COMPREPLY[@]} )) || return
    local file end
    while IFS= read -r file; do
        end=' '
        [[ -d $file ]] && end=/
        printf -v file '%q%s' "$file" "$end"
        COMPREPLY+=("$file")
    done < <(compgen -f -- "$typed")
}

_haul_offer() {
    local options operands
    case $place in
@OPTIONS@
    esac
    [[ $typed == --*=* ]] && return
    if [[ $typed == -* ]]; then
        _haul_add "$options" ' '
        return
    fi
    case $place in
@OPERANDS@
    esac
    $operands
}

_haul() {
    # bash divides words at colons and more; haul does not.
    local words line=${COMP_LINE:0:COMP_POINT} place=
    read -ra words <<<"$line"
    [[ $line == *[[:blank:]] ]] && words+=('')
    local at=$((${#words[@]} - 1))
    local typed=${words[at]} word=${words[at]} before=${words[at - 1]}
    [[ $typed == --*=* ]] && before=${typed%%=*} word=${typed#*=}
    (( at > 1 )) && place=${words[1]}
    [[ $place == job ]] && (( at > 2 )) && place="job ${words[2]}"
    COMPREPLY=()
    _haul_offer
    (( ${#COMPREPLY[@]} )) && compopt -o nospace
    COMPREPLY=("${COMPREPLY[@]#"${typed%"$2"}"}")
}
complete -o default -F _haul haul
