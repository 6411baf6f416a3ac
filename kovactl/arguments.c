#include "arguments.h"

#include <assert.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "core/decimal.h"
#include "core/duration.h"
#include "core/nearest.h"
#include "core/request_bounds.h"
#include "help.h"
#include "output.h"
#include "session.h"

enum {
	OPTION_HELP = 1000,
	OPTION_AGENT,
	OPTION_TOKEN_FILE,
	OPTION_JSON,
	OPTION_TLS,
	OPTION_CA,
	OPTION_CERT,
	OPTION_KEY
};

const struct option_spec common_options[] = {
	{OPTION_AGENT, "agent", "ADDRESS",
	 "the agent's RESP address: HOST:PORT, rediss://HOST:PORT (TLS) or\nunix:PATH (else "
	 "$KOVA_AGENT, else " AGENT_DEFAULT ")"},
	{OPTION_TOKEN_FILE, "token-file", "FILE",
	 "a file that holds the agent's token (else $KOVA_TOKEN)"},
	{OPTION_TLS, "tls", NULL, "speak TLS; so do the next three"},
	{OPTION_CA, "ca", "FILE", "authorities to believe, PEM (else $KOVA_CA, else the system's)"},
	{OPTION_CERT, "cert", "FILE", "a certificate to show, PEM (else $KOVA_CERT)"},
	{OPTION_KEY, "key", "FILE", "its key, PEM (else $KOVA_KEY)"},
	{OPTION_JSON, "json", NULL, "print JSON, for programs"},
	{OPTION_HELP, "help", NULL, "show this text"},
	{0},
};

static size_t options_append(struct option *to, size_t n, const struct option_spec *specs)
{
	for (size_t i = 0; specs != NULL && specs[i].name != NULL; i++) {
		assert(n + 1 < ARGUMENTS_OPTIONS_MAX);
		to[n++] = (struct option){
			.name = specs[i].name,
			.has_arg = specs[i].value != NULL ? required_argument : no_argument,
			.val = specs[i].id,
		};
	}
	return n;
}

static const char *option_name_at(const void *options, size_t i)
{
	return ((const struct option *)options)[i].name;
}

void arguments_init(struct arguments *a, const struct command *command, struct session *session,
		    int argc, char **argv)
{
	*a = (struct arguments){.command = command, .session = session, .argc = argc, .argv = argv};
	optind = 0; /* glibc: starts the scan anew */
	opterr = 0;
}

static int stop(struct arguments *a, int status)
{
	a->stopped = true;
	a->status = status;
	return ARGUMENT_END;
}

int arguments_error(struct arguments *a, const char *format, ...)
{
	char text[512];
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof text, format, list);
	va_end(list);
	complain("%s", text);
	hint("kovactl %s --help shows what it takes", a->command->name);
	stop(a, EXIT_USAGE);
	return EXIT_USAGE;
}

static void unknown_option(struct arguments *a, const struct option *options)
{
	const char *word = a->argv[optind - 1];

	if (word[0] != '-' || word[1] != '-') {
		arguments_error(
			a, "there is no option -%c; a word that begins with a dash goes after --",
			optopt > 0 && optopt < 127 ? optopt : '?');
		return;
	}
	char name[64];
	snprintf(name, sizeof name, "%.*s", (int)strcspn(word + 2, "="), word + 2);
	const char *near = nearest_find(name, option_name_at, options);
	if (optopt != 0)
		arguments_error(a, "--%s takes no value", name);
	else if (near != NULL)
		arguments_error(a, "there is no option --%s; did you mean --%s?", name, near);
	else
		arguments_error(a, "there is no option --%s", name);
}

/* Takes care of an option of every subcommand; false: it is one of the command's own. */
static bool common_option(struct arguments *a, int id)
{
	switch (id) {
	case OPTION_AGENT:
		a->session->agent_text = optarg;
		return true;
	case OPTION_TOKEN_FILE:
		a->session->token_file = optarg;
		return true;
	case OPTION_TLS:
		a->session->tls.on = true;
		return true;
	case OPTION_CA:
		a->session->tls.ca = optarg;
		return true;
	case OPTION_CERT:
		a->session->tls.cert = optarg;
		return true;
	case OPTION_KEY:
		a->session->tls.key = optarg;
		return true;
	case OPTION_JSON:
		a->session->json = true;
		return true;
	case 'h':
	case OPTION_HELP:
		help_command(a->command, common_options);
		stop(a, EXIT_ALLOWED);
		return true;
	default:
		return false;
	}
}

static int next_word(struct arguments *a, const char **ret_value)
{
	a->rest = true;
	if (optind >= a->argc)
		return ARGUMENT_END;
	if (a->command->runs) {
		a->run = a->argv + optind;
		return ARGUMENT_END;
	}
	*ret_value = a->argv[optind++];
	return ARGUMENT_WORD;
}

int arguments_next(struct arguments *a, const char **ret_value)
{
	struct option options[ARGUMENTS_OPTIONS_MAX] = {0};
	size_t n = options_append(options, 0, a->command->options);

	options_append(options, n, common_options);
	*ret_value = NULL;
	while (!a->stopped && !a->rest) {
		int id = getopt_long(a->argc, a->argv, "-:h", options, NULL);

		if (id == -1)
			return next_word(a, ret_value);
		if (id == ':') {
			arguments_error(a, "%s needs a value", a->argv[optind - 1]);
		} else if (id == '?') {
			unknown_option(a, options);
		} else if (!common_option(a, id)) {
			*ret_value = optarg;
			return id;
		}
	}
	return a->stopped ? ARGUMENT_END : next_word(a, ret_value);
}

bool arguments_words(struct arguments *a, const char **ret_words, size_t min, size_t max,
		     size_t *ret_n)
{
	const char *word;
	size_t n = 0;

	while (arguments_next(a, &word) == ARGUMENT_WORD) {
		if (n == max) {
			arguments_error(a, "\"%s\" is one word too many", word);
			return false;
		}
		ret_words[n++] = word;
	}
	if (!a->stopped && n < min)
		arguments_error(a, "it takes %s", a->command->usage);
	*ret_n = n;
	return !a->stopped;
}

bool arguments_number(struct arguments *a, const char *option, const char *text, uint64_t min,
		      uint64_t max, uint64_t *ret_number)
{
	uint64_t number;

	if (decimal_parse(slice_of(text), max, &number) != KOVA_OK || number < min) {
		arguments_error(
			a, "%s must be a whole number from %" PRIu64 " to %" PRIu64 ", not \"%s\"",
			option, min, max, text);
		return false;
	}
	*ret_number = number;
	return true;
}

bool arguments_duration(struct arguments *a, const char *option, const char *text, uint64_t min_ms,
			uint64_t max_ms, uint64_t *ret_ms)
{
	uint64_t ms;

	if (duration_parse(slice_of(text), &ms) != KOVA_OK) {
		arguments_error(a, "%s must be " DURATION_FORMS ", not \"%s\"", option, text);
		return false;
	}
	if (ms < min_ms || ms > max_ms) {
		char low[DURATION_TEXT_MAX], high[DURATION_TEXT_MAX];

		duration_write(min_ms, low);
		duration_write(max_ms, high);
		arguments_error(a, "%s must be from %s to %s, not %s", option, low, high, text);
		return false;
	}
	*ret_ms = ms;
	return true;
}

bool arguments_key(struct arguments *a, const char *key)
{
	if (*key == '\0' || strlen(key) > REQUEST_KEY_MAX)
		arguments_error(a, "KEY must be 1 to %d bytes", REQUEST_KEY_MAX);
	return !a->stopped;
}

bool arguments_policy_key(struct arguments *a, const char *policy, const char *key)
{
	if (policy == NULL || key == NULL)
		arguments_error(a, "it takes %s", a->command->usage);
	else if (*policy == '\0')
		arguments_error(a, "POLICY is empty");
	else
		arguments_key(a, key);
	return !a->stopped;
}
