/* The coordinator as a process: from its configuration to its end by a signal. */
#pragma once

#include "core/status.h"
#include "io/log.h"

/* Runs until SIGTERM or SIGINT. KOVA_ECONFIG and others: it could not start; the log says why. */
kova_status coordinator_run(const char *file, enum log_format format, enum log_level level);
