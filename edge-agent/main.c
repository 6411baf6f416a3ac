/* kova-agent: options, and the one place where the process may refuse to start. */
#include <stdlib.h>

#include "agent_run.h"
#include "edge_conf.h"
#include "io/daemon_options.h"

static const char help[] =
	"usage: kova-agent --config FILE [option…]\n"
	"\n"
	"The edge agent: enforces limits for the workers beside it, exactly, through the\n"
	"region's Redis.\n"
	"\n"
	"  -c, --config FILE      the node's configuration (JSON)\n"
	"      --check-config     check FILE and exit: 0, or 1 with each error as\n"
	"                         FILE:LINE:COLUMN: what is wrong and what is allowed\n"
	"      --log FORMAT       json (default): one object a line; text: for people\n"
	"      --log-level LEVEL  debug, info (default), warn or error\n"
	"  -h, --help             this text\n"
	"  -V, --version          the version\n"
	"\n"
	"SIGHUP reloads FILE and the tokens; SIGTERM and SIGINT answer what is in progress\n"
	"and end. Without `listen` it answers RESP on localhost:7411, HTTP on\n"
	"localhost:7412 and gRPC on localhost:7413; without `redis` it runs a private\n"
	"redis-server. Every option of FILE: docs/configuration.md, installed in\n"
	"share/doc/kova.\n";

static int check(const char *file)
{
	struct edge_conf conf;
	struct buf errors = {0};
	kova_status loaded = edge_conf_load(file, &conf, &errors);
	int status = daemon_options_checked(file, loaded, &errors);

	buf_release(&errors);
	if (loaded == KOVA_OK)
		edge_conf_release(&conf);
	return status;
}

int main(int argc, char **argv)
{
	static const struct daemon_program program = {"kova-agent", help};
	struct daemon_options o;
	int status = daemon_options_parse(&program, argc, argv, &o);

	if (status >= 0)
		return status;
	if (o.check)
		return check(o.config);
	log_setup(o.format, o.level, NULL);
	return agent_run(o.config, o.format, o.level) == KOVA_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
