/*
 * Why the agent could not be asked or said no: one line for people, what to do about it included.
 * No secrets.
 */
#pragma once

struct agent_error {
	char text[512];
};

void agent_error_set(struct agent_error *e, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
