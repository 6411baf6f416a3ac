/*
 * Stops or kills a process at one point of a transaction with grants: preloaded (LD_PRELOAD) into a coordinator by phases.py.
 * $KOVA_PHASE_FILE is mapped; it holds three numbers of 32 bits: the point (0: none), the signal, and how often one was sent.
 * What was produced before has left by then.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <librdkafka/rdkafka.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum phase {
	NONE,
	BEFORE_GRANTS,
	AFTER_GRANTS,
	BEFORE_OFFSETS,
	AFTER_OFFSETS,
	BEFORE_COMMIT,
	AFTER_COMMIT
};

enum { LEAVE_MS = 300 };

struct orders {
	_Atomic uint32_t phase, signal, sent;
};

static struct orders *orders;
static _Thread_local int has_grants; /* the transaction of this thread */

__attribute__((constructor)) static void map_orders(void)
{
	const char *path = getenv("KOVA_PHASE_FILE");
	int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *at;

	if (fd < 0)
		return;
	at = mmap(NULL, sizeof *orders, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (at != MAP_FAILED)
		orders = at;
}

static void reach(enum phase phase)
{
	const struct timespec pause = {0, LEAVE_MS * 1000000};
	uint32_t expected = phase;

	if (orders == NULL || !atomic_compare_exchange_strong(&orders->phase, &expected, NONE))
		return;
	nanosleep(&pause, NULL);
	atomic_fetch_add(&orders->sent, 1);
	kill(getpid(), (int)orders->signal);
}

rd_kafka_error_t *rd_kafka_produceva(rd_kafka_t *rk, const rd_kafka_vu_t *vus, size_t n)
{
	rd_kafka_error_t *(*real)(rd_kafka_t *, const rd_kafka_vu_t *, size_t);
	rd_kafka_error_t *error;
	int is_grant = 0;

	*(void **)&real = dlsym(RTLD_NEXT, "rd_kafka_produceva");
	for (size_t i = 0; i < n; i++)
		is_grant |= vus[i].vtype == RD_KAFKA_VTYPE_TOPIC &&
			    strcmp(vus[i].u.cstr, "kova.grants.v1") == 0;
	if (is_grant)
		reach(BEFORE_GRANTS);
	error = real(rk, vus, n);
	has_grants |= is_grant;
	if (is_grant)
		reach(AFTER_GRANTS);
	return error;
}

rd_kafka_error_t *
rd_kafka_send_offsets_to_transaction(rd_kafka_t *rk, const rd_kafka_topic_partition_list_t *offsets,
				     const rd_kafka_consumer_group_metadata_t *group,
				     int timeout_ms)
{
	rd_kafka_error_t *(*real)(rd_kafka_t *, const rd_kafka_topic_partition_list_t *,
				  const rd_kafka_consumer_group_metadata_t *, int);
	rd_kafka_error_t *error;

	*(void **)&real = dlsym(RTLD_NEXT, "rd_kafka_send_offsets_to_transaction");
	if (has_grants)
		reach(BEFORE_OFFSETS);
	error = real(rk, offsets, group, timeout_ms);
	if (has_grants)
		reach(AFTER_OFFSETS);
	return error;
}

rd_kafka_error_t *rd_kafka_commit_transaction(rd_kafka_t *rk, int timeout_ms)
{
	rd_kafka_error_t *(*real)(rd_kafka_t *, int);
	rd_kafka_error_t *error;

	*(void **)&real = dlsym(RTLD_NEXT, "rd_kafka_commit_transaction");
	if (has_grants)
		reach(BEFORE_COMMIT);
	error = real(rk, timeout_ms);
	if (has_grants)
		reach(AFTER_COMMIT);
	has_grants = 0;
	return error;
}
