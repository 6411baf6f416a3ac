#include "io/daemon_options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/version.h"

enum { EXIT_USAGE = 2, OPTION_CHECK = 256, OPTION_LOG, OPTION_LOG_LEVEL };

static int usage(const struct daemon_program *p, const char *what, const char *value)
{
	fprintf(stderr, "%s: %s%s\nTry '%s --help'.\n", p->name, what, value, p->name);
	return EXIT_USAGE;
}

static bool parse_format(const char *text, enum log_format *ret_format)
{
	if (strcmp(text, "json") == 0)
		*ret_format = LOG_JSON;
	else if (strcmp(text, "text") == 0)
		*ret_format = LOG_TEXT;
	else
		return false;
	return true;
}

static bool parse_level(const char *text, enum log_level *ret_level)
{
	static const char *const names[] = {"debug", "info", "warn", "error"};

	for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
		if (strcmp(text, names[i]) == 0) {
			*ret_level = (enum log_level)i;
			return true;
		}
	return false;
}

int daemon_options_parse(const struct daemon_program *p, int argc, char **argv,
			 struct daemon_options *ret)
{
	static const struct option longs[] = {
		{"config", required_argument, NULL, 'c'},
		{"check-config", no_argument, NULL, OPTION_CHECK},
		{"log", required_argument, NULL, OPTION_LOG},
		{"log-level", required_argument, NULL, OPTION_LOG_LEVEL},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},
		{0},
	};
	int option;

	*ret = (struct daemon_options){.format = LOG_JSON, .level = LOG_INFO};
	while ((option = getopt_long(argc, argv, "c:hV", longs, NULL)) != -1) {
		switch (option) {
		case 'c':
			ret->config = optarg;
			break;
		case OPTION_CHECK:
			ret->check = true;
			break;
		case OPTION_LOG:
			if (!parse_format(optarg, &ret->format))
				return usage(p, "--log must be json or text, not ", optarg);
			break;
		case OPTION_LOG_LEVEL:
			if (!parse_level(optarg, &ret->level))
				return usage(p,
					     "--log-level must be debug, info, warn or error, not ",
					     optarg);
			break;
		case 'h':
			fputs(p->help, stdout);
			return EXIT_SUCCESS;
		case 'V':
			printf("%s %s\n", p->name, KOVA_VERSION);
			return EXIT_SUCCESS;
		default: /* getopt_long() has said what is wrong */
			fprintf(stderr, "Try '%s --help'.\n", p->name);
			return EXIT_USAGE;
		}
	}
	if (optind < argc)
		return usage(p, "unexpected argument: ", argv[optind]);
	if (ret->config == NULL)
		return usage(p, "--config FILE is needed", "");
	return -1;
}

int daemon_options_checked(const char *file, kova_status loaded, const struct buf *errors)
{
	if (errors->len > 0)
		fwrite(errors->ptr, 1, errors->len, stderr);
	if (loaded != KOVA_OK)
		return EXIT_FAILURE;
	printf("%s: ok\n", file);
	return EXIT_SUCCESS;
}
