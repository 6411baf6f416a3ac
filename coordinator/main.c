/* kova-coordinator: options, and the one place where the process may refuse to start. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coord_conf.h"
#include "coordinator.h"
#include "core/version.h"
#include "io/log.h"

static const char help[] =
	"usage: kova-coordinator --config FILE [option…]\n"
	"\n"
	"Adds up what all regions use, from Kafka and exactly, keeps the ledger of it and\n"
	"publishes what each policy used. One is enough; several share the work.\n"
	"\n"
	"  -c, --config FILE      the coordinator's configuration (JSON)\n"
	"      --check-config     check FILE and exit: 0, or 1 with each error as\n"
	"                         FILE:LINE:COLUMN: what is wrong and what is allowed\n"
	"      --log FORMAT       json (default): one object a line; text: for people\n"
	"      --log-level LEVEL  debug, info (default), warn or error\n"
	"  -h, --help             this text\n"
	"  -V, --version          the version\n"
	"\n"
	"SIGHUP reloads the policies of FILE; SIGTERM and SIGINT commit what was read and\n"
	"end. Without `http` it answers HTTP on 127.0.0.1:7422. Every option of FILE:\n"
	"man kova-coordinator, docs/coordinator.md.\n";

enum { EXIT_USAGE = 2, OPTION_CHECK = 256, OPTION_LOG, OPTION_LOG_LEVEL };

struct options {
	const char *config;
	bool check;
	enum log_format format;
	enum log_level level;
};

static int usage(const char *what, const char *value)
{
	fprintf(stderr, "kova-coordinator: %s%s\nTry 'kova-coordinator --help'.\n", what, value);
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

/* −1: go on; else the exit status. */
static int parse_options(int argc, char **argv, struct options *o)
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

	while ((option = getopt_long(argc, argv, "c:hV", longs, NULL)) != -1) {
		switch (option) {
		case 'c':
			o->config = optarg;
			break;
		case OPTION_CHECK:
			o->check = true;
			break;
		case OPTION_LOG:
			if (!parse_format(optarg, &o->format))
				return usage("--log must be json or text, not ", optarg);
			break;
		case OPTION_LOG_LEVEL:
			if (!parse_level(optarg, &o->level))
				return usage("--log-level must be debug, info, warn or error, not ",
					     optarg);
			break;
		case 'h':
			fputs(help, stdout);
			return EXIT_SUCCESS;
		case 'V':
			puts("kova-coordinator " KOVA_VERSION);
			return EXIT_SUCCESS;
		default:
			return EXIT_USAGE;
		}
	}
	if (optind < argc)
		return usage("unexpected argument: ", argv[optind]);
	if (o->config == NULL)
		return usage("--config FILE is needed", "");
	return -1;
}

static int check(const char *file)
{
	struct coord_conf conf;
	struct buf errors = {0};
	kova_status status = coord_conf_load(file, &conf, &errors);

	if (errors.len > 0)
		fwrite(errors.ptr, 1, errors.len, stderr);
	buf_release(&errors);
	if (status != KOVA_OK)
		return EXIT_FAILURE;
	printf("%s: ok\n", file);
	coord_conf_release(&conf);
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	struct options o = {.format = LOG_JSON, .level = LOG_INFO};
	int status = parse_options(argc, argv, &o);

	if (status >= 0)
		return status;
	if (o.check)
		return check(o.config);
	log_setup(o.format, o.level, NULL);
	return coordinator_run(o.config, o.format, o.level) == KOVA_OK ? EXIT_SUCCESS
								       : EXIT_FAILURE;
}
