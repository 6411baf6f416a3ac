/* kovactl config: checks a node's configuration by kova-agent itself; shows what is in force, and what changed. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "actions.h"
#include "arguments.h"
#include "command.h"
#include "config_changes.h"
#include "input.h"
#include "output.h"
#include "program.h"
#include "session.h"

static const struct action actions[] = {
	{"show", 0, 0, NULL},
	{"check", 1, 1, "one file"},
	{"log", 0, 0, NULL},
	{"diff", 1, 1, "one version, as log lists it"},
	{"rollback", 1, 1, "one version, as log lists it"},
	{0},
};

enum { PATH_MAX_LEN = 4096, LOG_DEFAULT = 20, LOG_MOST = 1000 };

/* ---- show ---- */

/* Moves the list `name` of the answer to `target` into `to`. */
static int add_list(struct session *s, const char *target, const char *name, json_t *to)
{
	json_t *body = NULL;
	int status = session_http_get(s, target, NULL, NULL, &body);

	if (status != EXIT_ALLOWED)
		return status;
	json_t *items = json_object_get(body, name);
	input_strip_stamps(items);
	if (items == NULL || json_object_set(to, name, items) != 0) {
		complain("the agent's answer has a form that this kovactl does not know");
		status = EXIT_UNREACHABLE;
	}
	json_decref(body);
	return status;
}

static int show(struct session *s)
{
	json_t *all = json_object();
	int status = add_list(s, "/v1/policies", "policies", all);

	if (status == EXIT_ALLOWED)
		status = add_list(s, "/v1/overrides", "overrides", all);
	if (status == EXIT_ALLOWED)
		return s->json ? output_json(all) : output_json_indented(all);
	json_decref(all);
	return status;
}

/* ---- check ---- */

/* kova-agent beside kovactl, else the one on PATH. */
static void find_agent(char path[PATH_MAX_LEN])
{
	static const char name[] = "kova-agent";
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX_LEN - sizeof name);

	if (n > 0) {
		path[n] = '\0';
		char *slash = strrchr(path, '/');
		if (slash != NULL) {
			memcpy(slash + 1, name, sizeof name);
			if (program_find(path) == EXIT_ALLOWED)
				return;
		}
	}
	memcpy(path, name, sizeof name);
}

/* Runs `argv` with both its outputs into *ret_output; its exit status, or -1 after a complaint. */
static int run_captured(char **argv, struct buf *ret_output)
{
	int ends[2], wait_status;
	char *room;
	ssize_t n = 1;

	if (pipe(ends) != 0) {
		complain("pipe: %s", strerror(errno));
		return -1;
	}
	pid_t pid = fork();
	if (pid == 0) {
		dup2(ends[1], STDOUT_FILENO);
		dup2(ends[1], STDERR_FILENO);
		close(ends[0]);
		close(ends[1]);
		_exit(program_become(argv));
	}
	close(ends[1]);
	while (pid > 0 && n != 0 && (room = buf_reserve(ret_output, 4096)) != NULL) {
		n = read(ends[0], room, 4096);
		if (n > 0)
			ret_output->len += (size_t)n;
		else if (n < 0 && errno != EINTR)
			n = 0;
	}
	close(ends[0]);
	if (pid < 0 || waitpid(pid, &wait_status, 0) != pid || !WIFEXITED(wait_status)) {
		complain("%s: did not run to its end", argv[0]);
		return -1;
	}
	return WEXITSTATUS(wait_status);
}

/* "FILE:LINE:COLUMN: TEXT" as an object, other lines as {"text"}. `line` is changed. */
static json_t *error_json(char *line, const char *file)
{
	size_t len = strlen(file);
	unsigned number, column;
	int text_at = 0;

	if (strncmp(line, file, len) == 0 &&
	    sscanf(line + len, ":%u:%u: %n", &number, &column, &text_at) == 2 && text_at > 0)
		return json_pack("{s:s, s:i, s:i, s:s}", "file", file, "line", (int)number,
				 "column", (int)column, "text", line + len + text_at);
	return json_pack("{s:s}", "text", line);
}

static int print_check_json(const char *file, int agent_status, char *output)
{
	json_t *errors = json_array();
	char *rest = NULL;

	for (char *line = strtok_r(output, "\n", &rest); line != NULL && agent_status != 0;
	     line = strtok_r(NULL, "\n", &rest))
		json_array_append_new(errors, error_json(line, file));
	return output_json(json_pack("{s:s, s:b, s:o}", "file", file, "valid", agent_status == 0,
				     "errors", errors));
}

static int check_json(char **argv, const char *file)
{
	struct buf output = {0};
	int agent_status = run_captured(argv, &output);
	int status = EXIT_UNREACHABLE;

	buf_add(&output, "", 1);
	if (agent_status >= 0 && !buf_failed(&output)) {
		status = print_check_json(file, agent_status, output.ptr);
		if (status == EXIT_ALLOWED && agent_status != 0)
			status = EXIT_REFUSED;
	}
	buf_release(&output);
	return status;
}

static int check(const struct session *s, const char *file)
{
	char path[PATH_MAX_LEN], check_option[] = "--check-config", config_option[] = "--config";
	char *copy = strdup(file);
	int status = EXIT_UNREACHABLE;

	find_agent(path);
	char *argv[] = {path, check_option, config_option, copy, NULL};
	if (copy == NULL) {
		complain("out of memory");
	} else if (program_find(path) != EXIT_ALLOWED) {
		complain("kova-agent, which checks it, is neither beside kovactl nor on PATH");
	} else if (s->json) {
		status = check_json(argv, file);
	} else {
		program_become(argv);
	}
	free(copy);
	return status;
}

static bool read_arguments(struct arguments *a, const char **words, size_t *n, uint64_t *most,
			   bool *force)
{
	const char *value;
	int id;

	while ((id = arguments_next(a, &value)) != ARGUMENT_END) {
		if (id == 'f')
			*force = true;
		else if (id == 'n' && !arguments_number(a, "--limit", value, 1, LOG_MOST, most))
			return false;
		else if (id == ARGUMENT_WORD && *n == 3)
			arguments_error(a, "at most 2 words");
		else if (id == ARGUMENT_WORD)
			words[(*n)++] = value;
	}
	return !a->stopped;
}

static int run(struct session *s, struct arguments *a)
{
	const char *words[3];
	uint64_t most = LOG_DEFAULT;
	bool force = false;
	size_t n = 0;

	if (!read_arguments(a, words, &n, &most, &force))
		return a->status;
	const struct action *action = actions_choose(a, actions, words, n);
	if (action == NULL)
		return a->status;
	if (strcmp(action->name, "check") == 0)
		return check(s, words[1]);
	if (strcmp(action->name, "log") == 0)
		return config_log(s, most);
	if (strcmp(action->name, "diff") == 0)
		return config_diff(s, words[1]);
	if (strcmp(action->name, "rollback") == 0)
		return config_rollback(s, words[1], force);
	return show(s);
}

static const struct option_spec options[] = {
	{'n', "limit", "N", "log: the last N changes, 20 by default, 1000 at most"},
	{'f', "force", NULL, "rollback: also when it was changed again since"},
	{0},
};

const struct command command_config = {
	.name = "config",
	.summary = "Check a configuration file; show what is in force and what changed",
	.usage = "[show]\ncheck FILE\nlog [--limit N]\ndiff VERSION\nrollback VERSION [--force]",
	.details = "check: every error with FILE:LINE:COLUMN; exit status 0 valid, 1 not. Needs no "
		   "agent running.\n"
		   "show: the policies and overrides in force, as they can stand in a "
		   "configuration file.\n"
		   "log: who changed what when, on whichever node; the agent keeps the last 1000.\n"
		   "diff: what one change of the log did.\n"
		   "rollback: puts back what was before it, as a new change; not of pools, whose\n"
		   "addresses and keys the log does not have.",
	.examples = "kovactl config check /etc/kova/agent.json\n"
		    "kovactl config show > policies.json\n"
		    "kovactl config log --limit 5\n"
		    "kovactl config rollback 3658956853248000",
	.options = options,
	.run = run,
};
