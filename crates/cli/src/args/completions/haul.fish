# Completion of haul for fish(1).

# Whether the command, or the step of a job, is one of the arguments; it is empty in a copy.
function __haul_at
    set -l words (commandline -opc)
    set -l place "$words[2]"
    test "$place" = job; and set place (string join ' ' $words[2..3])
    contains -- "$place" @PLACES@; or set place ''
    contains -- "$place" $argv
end

function __haul_nothing
end

# fish completes them.
function __haul_files
end

function __haul_words
    string join \n $argv
end

# Hosts, behind a user and @, with $argv behind each; none where a path has begun.
function __haul_hosts
    for user in (commandline -ct | string match -v '*:*' | string replace -r '[^@]*$' '')
        printf '%s\n' $user(__fish_print_hostnames)"$argv"
    end
end

function __haul_locations
    test (count (commandline -opc)) -gt 1; or string join \n @COMMANDS@
    __haul_hosts :
end

# Paths on the host of a word, through its shared login.
function __haul_remote_paths
    haul completions paths (commandline -ct) 2>/dev/null
end

complete -c haul -n 'commandline -ct | string match -qr "^[^/:]+:"' -f -a '(__haul_remote_paths)'
