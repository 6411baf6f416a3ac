/* kova-coordinator: options, and the one place where the process may refuse to start. */
#include <stdlib.h>

#include "coord_conf.h"
#include "coordinator.h"
#include "io/daemon_options.h"

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
	"SIGHUP reloads the policies, tokens and certificates of FILE; SIGTERM and SIGINT\n"
	"commit what was read and end. Without `http` it answers HTTP on 127.0.0.1:7422.\n"
	"Every option of FILE: docs/coordinator.md, installed in share/doc/kova.\n";

static int check(const char *file)
{
	struct coord_conf conf;
	struct buf errors = {0};
	kova_status loaded = coord_conf_load(file, &conf, &errors);
	int status = daemon_options_checked(file, loaded, &errors);

	buf_release(&errors);
	if (loaded == KOVA_OK)
		coord_conf_release(&conf);
	return status;
}

int main(int argc, char **argv)
{
	static const struct daemon_program program = {"kova-coordinator", help};
	struct daemon_options o;
	int status = daemon_options_parse(&program, argc, argv, &o);

	if (status >= 0)
		return status;
	if (o.check)
		return check(o.config);
	log_setup(o.format, o.level, NULL);
	return coordinator_run(o.config, o.format, o.level) == KOVA_OK ? EXIT_SUCCESS
								       : EXIT_FAILURE;
}
