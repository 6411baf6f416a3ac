#include "help.h"

#include <stdio.h>
#include <string.h>

#include "output.h"

enum { COLUMN = 24 };

static void heading(const char *text)
{
	printf("\n%s%s%s\n", paint(stdout, PAINT_BOLD), text, paint(stdout, PAINT_PLAIN));
}

/* `left`, then `text` in its column; further lines of `text` are set below its first. */
static void entry(const char *left, const char *text)
{
	printf("  %-*s", COLUMN - 2, left);
	for (const char *c = text; *c != '\0'; c++) {
		putchar(*c);
		if (*c == '\n')
			printf("%*s", COLUMN, "");
	}
	putchar('\n');
}

static void options(const struct option_spec *specs)
{
	for (; specs->name != NULL; specs++) {
		char left[64];

		snprintf(left, sizeof left, "--%s%s%s", specs->name,
			 specs->value != NULL ? " " : "", specs->value != NULL ? specs->value : "");
		entry(left, specs->text);
	}
}

/* One line for each line of `text`, also for an empty text, each after `before` and a space. */
static void lines(const char *before, const char *text)
{
	do {
		size_t len = strcspn(text, "\n");

		printf("%s%s%.*s\n", before, len > 0 && *before != '\0' ? " " : "", (int)len, text);
		text += len + (text[len] == '\n');
	} while (*text != '\0');
}

void help_command(const struct command *command, const struct option_spec *common)
{
	char before[64];

	snprintf(before, sizeof before, "  kovactl %s", command->name);
	printf("%s.\n", command->summary);
	heading("Usage");
	lines(before, command->usage);
	if (command->details != NULL) {
		putchar('\n');
		lines("", command->details);
	}
	if (command->options != NULL) {
		heading("Options");
		options(command->options);
	}
	heading("Options of every command");
	options(common);
	if (command->examples != NULL) {
		heading("Examples");
		lines(" ", command->examples);
	}
}

void help_program(void)
{
	const struct command *command;

	printf("Ask a Kova agent, and run it: limits, waiting, policies.\n");
	heading("Usage");
	printf("  kovactl COMMAND [ARGUMENT]... [--agent ADDRESS] [--token-file FILE] [--json]\n");
	heading("Commands");
	for (size_t i = 0; (command = command_at(i)) != NULL; i++)
		entry(command->name, command->summary);
	heading("Options");
	entry("--help", "show this text; kovactl COMMAND --help tells more");
	entry("--version", "show the version");
	heading("Environment");
	entry("KOVA_AGENT", "the agent's RESP address (else 127.0.0.1:7411)");
	entry("KOVA_TOKEN", "its token, where it wants one");
	entry("KOVA_CA", "authorities to believe: speak TLS");
	entry("KOVA_CERT, KOVA_KEY", "a certificate to show, and its key");
	entry("NO_COLOR", "if set, no colours");
	heading("Exit status");
	entry("0", "allowed, or done");
	entry("1", "refused, or a check found something");
	entry("2", "the command line or the request is invalid");
	entry("3", "the agent is not reachable");
}
