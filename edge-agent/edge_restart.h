/* What of an agent's configuration a reload does not bring into force. */
#pragma once

struct edge_conf;

/* Names in the log each option that `is` has otherwise than `was`, of the start, and that waits for the next start. */
void edge_restart_warn(const struct edge_conf *was, const struct edge_conf *is);
