# Completion of kovactl for fish. Installed in vendor_completions.d as kovactl.fish.

function __kovactl_policies
    timeout 1 kovactl policies list --names 2>/dev/null
end

# The command line has just these words, options aside.
function __kovactl_words
    set -l words (string match -v -- '-*' (commandline -opc))
    test (count $words) -eq $argv[1]; or return 1
    test (count $argv) -lt 2; or contains -- $words[2] $argv[2..-1]
end

function __kovactl_command
    contains -- (string match -v -- '-*' (commandline -opc))[2] $argv
end

function __kovactl_action
    set -l words (string match -v -- '-*' (commandline -opc))
    test "$words[2]" = $argv[1]; and contains -- "$words[3]" $argv[2..-1]
end

complete -c kovactl -f
complete -c kovactl -l agent -x -d 'RESP address of the agent: HOST:PORT or unix:PATH'
complete -c kovactl -l token-file -r -F -d 'File that holds the token'
complete -c kovactl -l tls -d 'Speak TLS'
complete -c kovactl -l ca -r -F -d 'Authorities to believe'
complete -c kovactl -l cert -r -F -d 'Certificate to show'
complete -c kovactl -l key -r -F -d 'Its key'
complete -c kovactl -l json -d 'Print JSON, for programs'
complete -c kovactl -l help -d 'Show what it takes'
complete -c kovactl -n '__kovactl_words 1' -l version -d 'Show the version'

complete -c kovactl -n '__kovactl_words 1' -a take -d 'Take from a limit, now or not at all'
complete -c kovactl -n '__kovactl_words 1' -a peek -d 'Show what a take would be answered'
complete -c kovactl -n '__kovactl_words 1' -a wait -d 'Wait for a limit, then run a command'
complete -c kovactl -n '__kovactl_words 1' -a watch -d 'Watch what is left of a limit'
complete -c kovactl -n '__kovactl_words 1' -a top -d 'The keys that ask for most, and those most refused'
complete -c kovactl -n '__kovactl_words 1' -a policies -d 'List, show, put or delete policies'
complete -c kovactl -n '__kovactl_words 1' -a override -d 'Other limits for single keys'
complete -c kovactl -n '__kovactl_words 1' -a usage -d 'How much of a key was admitted and refused'
complete -c kovactl -n '__kovactl_words 1' -a plan -d 'From a concurrency plan to a rate and a policy'
complete -c kovactl -n '__kovactl_words 1' -a home -d 'The home region of a key'
complete -c kovactl -n '__kovactl_words 1' -a pool -d 'Pools of endpoints'
complete -c kovactl -n '__kovactl_words 1' -a members -d 'The agents and coordinators'
complete -c kovactl -n '__kovactl_words 1' -a config -d 'Check a file; show what is in force and what changed'
complete -c kovactl -n '__kovactl_words 1' -a doctor -d 'Check the agent and say what to do'

complete -c kovactl -n '__kovactl_words 2 take peek wait watch top usage' -a '(__kovactl_policies)' -d policy
complete -c kovactl -n '__kovactl_words 2 policies' -a 'list show put delete'
complete -c kovactl -n '__kovactl_action policies show delete' -a '(__kovactl_policies)' -d policy
complete -c kovactl -n '__kovactl_action policies put' -F
complete -c kovactl -n '__kovactl_words 2 override' -a 'list set delete'
complete -c kovactl -n '__kovactl_words 3 override' -a '(__kovactl_policies)' -d policy
complete -c kovactl -n '__kovactl_words 2 config' -a 'show check log diff rollback'
complete -c kovactl -n '__kovactl_action config check' -F
complete -c kovactl -n '__kovactl_action config log' -l limit -x -d 'The last so many changes'
complete -c kovactl -n '__kovactl_action config rollback' -l force -d 'Also when it was changed again'

complete -c kovactl -n '__kovactl_command take wait' -l cost -x -d 'How much to take'
complete -c kovactl -n '__kovactl_command take' -l and -d 'Another pair POLICY KEY follows'
complete -c kovactl -n '__kovactl_command take' -l wait -x -d 'Wait for its turn up to so long'
complete -c kovactl -n '__kovactl_command take' -l id -x -d 'Charged once under this id'
complete -c kovactl -n '__kovactl_command take' -l receipt -d 'Print a receipt'
complete -c kovactl -n '__kovactl_command wait' -l timeout -x -d 'Give up after so long'
complete -c kovactl -n '__kovactl_command watch' -l every -x -d 'How often to look'
complete -c kovactl -n '__kovactl_command watch' -l count -x -d 'Stop after so many looks'
complete -c kovactl -n '__kovactl_command top' -l every -x -d 'How often to look'
complete -c kovactl -n '__kovactl_command top' -l count -x -d 'Stop after so many looks'
complete -c kovactl -n '__kovactl_command top' -l limit -x -d 'So many keys'
complete -c kovactl -n '__kovactl_words 2 pool' -a 'list show watch next report enable disable drain import'
complete -c kovactl -n '__kovactl_action pool import' -F
complete -c kovactl -n '__kovactl_command pool' -l target -x -d 'What the request is for'
complete -c kovactl -n '__kovactl_command pool' -l session -x -d 'Who keeps an endpoint'
complete -c kovactl -n '__kovactl_command pool' -l tier -x -d 'Not below this tier'
complete -c kovactl -n '__kovactl_command pool' -l wait -x -d 'How long to wait for one'
complete -c kovactl -n '__kovactl_command pool' -l status -x -d 'Of HTTP'
complete -c kovactl -n '__kovactl_command pool' -l retry-after -x -d 'Seconds or an HTTP-date'
complete -c kovactl -n '__kovactl_command pool' -l definition -r -F -d 'The rest of the pool'
complete -c kovactl -n '__kovactl_command pool' -l every -x -d 'How often to look'
complete -c kovactl -n '__kovactl_command pool' -l count -x -d 'Stop after so many looks'
complete -c kovactl -n '__kovactl_command policies' -l names -d 'The names only'
complete -c kovactl -n '__kovactl_command override' -l limit -x -d 'Another limit'
complete -c kovactl -n '__kovactl_command override' -l per -x -d 'Per what time'
complete -c kovactl -n '__kovactl_command override' -l burst -x -d 'How much at once'
complete -c kovactl -n '__kovactl_command override' -l weight -x -d 'Its part of the level above'
complete -c kovactl -n '__kovactl_command override' -l unlimited -d 'No limit'
complete -c kovactl -n '__kovactl_command override' -l banned -d 'Always refused'
complete -c kovactl -n '__kovactl_command override' -l prefix -d 'KEY is the beginning of keys'
complete -c kovactl -n '__kovactl_command override' -l until -x -d 'Until then, RFC 3339'
complete -c kovactl -n '__kovactl_command override' -l for -x -d 'For so long from now'
complete -c kovactl -n '__kovactl_command plan' -l name -x -d 'The name of the policy'
complete -c kovactl -n '__kovactl_command plan' -l policy -d 'Print the policy only'
