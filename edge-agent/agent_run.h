/* Running an agent, from its configuration file to its orderly end. */
#pragma once

#include "core/status.h"
#include "io/log.h"

/*
 * Starts the agent of the configuration in `file` and runs it until SIGTERM or SIGINT. What keeps it from
 * starting is logged; then the status is not KOVA_OK.
 */
KOVA_MUST_CHECK kova_status agent_run(const char *file, enum log_format format,
				      enum log_level level);
