/*
 * The command line of one subcommand, read in order: its own options come out one by one, those
 * that every subcommand has (--agent, --token-file, those of TLS, --json, --help) are taken care of here.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "command.h"

enum { ARGUMENT_END = 0, ARGUMENT_WORD = 1 }; /* ids of options begin above */
enum { ARGUMENTS_OPTIONS_MAX = 24, ARGUMENTS_WORDS_MAX = 64 };

struct arguments {
	const struct command *command;
	struct session *session;
	int argc;
	char **argv;
	bool rest;    /* after "--": all are words */
	char **run;   /* the command after "--", ends with NULL; NULL: none (see command.h, runs) */
	bool stopped; /* help was shown or an error: the command returns `status` */
	int status;
};

void arguments_init(struct arguments *a, const struct command *command, struct session *session,
		    int argc, char **argv);

/*
 * The next argument: the id of an option, ARGUMENT_WORD, or ARGUMENT_END at the end, after an
 * error (said on stderr) or after --help: then `stopped` is set. *ret_value (borrowed from argv)
 * is the word or the option's value, else NULL.
 */
int arguments_next(struct arguments *a, const char **ret_value);

/* Says what is wrong with the command line; returns EXIT_USAGE, which is also in `status` now. */
int arguments_error(struct arguments *a, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * For subcommands without options of their own: all words, at least `min` and at most `max` of
 * them. False: the command returns a->status.
 */
bool arguments_words(struct arguments *a, const char **ret_words, size_t min, size_t max,
		     size_t *ret_n);

/* Values of options. False: said on stderr, the command returns a->status. */
bool arguments_number(struct arguments *a, const char *option, const char *text, uint64_t min,
		      uint64_t max, uint64_t *ret_number);
bool arguments_duration(struct arguments *a, const char *option, const char *text, uint64_t min_ms,
			uint64_t max_ms, uint64_t *ret_ms);
/* 1 to REQUEST_KEY_MAX bytes. */
bool arguments_key(struct arguments *a, const char *key);
/* Both are given, the policy is not empty, the key as above. */
bool arguments_policy_key(struct arguments *a, const char *policy, const char *key);
