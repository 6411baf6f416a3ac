/*
 * kovactl: the operator's hand. Finds the subcommand, gives it the rest of the command line, ends
 * with its exit status.
 */
#include <curl/curl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "arguments.h"
#include "command.h"
#include "core/nearest.h"
#include "core/version.h"
#include "help.h"
#include "output.h"
#include "session.h"

static const char *command_name_at(const void *names, size_t i)
{
	const struct command *command = command_at(i);

	(void)names;
	return command != NULL ? command->name : NULL;
}

static int unknown_command(const char *name)
{
	const char *near = nearest_find(name, command_name_at, NULL);

	if (near != NULL)
		complain("there is no command %s; did you mean %s?", name, near);
	else
		complain("there is no command %s", name);
	hint("kovactl --help lists them");
	return EXIT_USAGE;
}

static int run_command(const struct command *command, int argc, char **argv)
{
	struct session session = {0};
	struct arguments arguments;

	arguments_init(&arguments, command, &session, argc, argv);
	int status = command->run(&session, &arguments);
	session_release(&session);
	return status;
}

/* `kovactl help`, `kovactl help COMMAND`: as --help. */
static int help(int argc, char **argv)
{
	const struct command *command = argc > 2 ? command_find(argv[2]) : NULL;
	char option[] = "--help";
	char *words[] = {argv[0], option, NULL};

	if (command != NULL)
		return run_command(command, 2, words);
	if (argc > 2)
		return unknown_command(argv[2]);
	help_program();
	return EXIT_ALLOWED;
}

/* How many words of the command line the option `word` takes; 0: not one that every command has. */
static int common_option_words(const char *word)
{
	static const struct {
		const char *name;
		bool has_value;
	} common[] = {{"--agent", true}, {"--token-file", true}, {"--json", false},
		      {"--tls", false},  {"--ca", true},         {"--cert", true},
		      {"--key", true}};

	for (size_t i = 0; i < sizeof common / sizeof common[0]; i++) {
		size_t len = strlen(common[i].name);

		if (strcmp(word, common[i].name) == 0)
			return common[i].has_value ? 2 : 1;
		if (common[i].has_value && strncmp(word, common[i].name, len) == 0 &&
		    word[len] == '=')
			return 1;
	}
	return 0;
}

/* Options that every command has may also stand before it: the command's name is put first. */
static void command_first(int argc, char **argv)
{
	int at = 1, words;

	while (at < argc && (words = common_option_words(argv[at])) > 0)
		at += words;
	if (at >= argc)
		return;

	char *name = argv[at];

	memmove(&argv[2], &argv[1], (size_t)(at - 1) * sizeof *argv);
	argv[1] = name;
}

static int dispatch(int argc, char **argv)
{
	command_first(argc, argv);

	const char *word = argc > 1 ? argv[1] : NULL;

	if (word == NULL) {
		complain("which command?");
		hint("kovactl --help lists them");
		return EXIT_USAGE;
	}
	if (strcmp(word, "--version") == 0) {
		puts("kovactl " KOVA_VERSION);
		return EXIT_ALLOWED;
	}
	if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0)
		return help(argc, argv);
	if (word[0] == '-') {
		complain("only --agent, --token-file, --json and options of TLS may precede the "
			 "command, not %s",
			 word);
		hint("kovactl --help shows how");
		return EXIT_USAGE;
	}
	const struct command *command = command_find(word);
	return command != NULL ? run_command(command, argc - 1, argv + 1) : unknown_command(word);
}

int main(int argc, char **argv)
{
	/* A connection that breaks is a failure to tell, not a reason to die. */
	signal(SIGPIPE, SIG_IGN);
	output_init();
	if (curl_global_init(CURL_GLOBAL_SSL) != CURLE_OK) {
		complain("libcurl cannot be used");
		return EXIT_USAGE;
	}
	int status = dispatch(argc, argv);
	curl_global_cleanup();
	if (fflush(stdout) != 0 && status == EXIT_ALLOWED) {
		complain("cannot write the output");
		return EXIT_USAGE;
	}
	return status;
}
