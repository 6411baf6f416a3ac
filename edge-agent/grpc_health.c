/*
 * grpc.health.v1: of the agent as a whole ("") and of each service, all alike: as /readyz, they serve until the agent
 * drains, since without its store each policy's on_outage answers.
 */
#include <grpc/health/v1/health.pb-c.h>

#include "grpc_task.h"

typedef Grpc__Health__V1__HealthCheckRequest health_request;
typedef Grpc__Health__V1__HealthCheckResponse health_response;
typedef Grpc__Health__V1__HealthListResponse__StatusesEntry health_entry;

#define STATUS(name) GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__##name

enum { SERVICES_MAX = 8 };

static bool is_known(const char *service)
{
	for (size_t i = 0; grpc_services[i] != NULL; i++)
		if (strcmp(grpc_services[i], service) == 0)
			return true;
	return service[0] == '\0';
}

static void fill(const struct grpc_task *t, health_response *r)
{
	grpc__health__v1__health_check_response__init(r);
	r->status = task_agent(t)->draining ? STATUS(NOT_SERVING) : STATUS(SERVING);
}

/* Sets *ret_known. False: the call was ended. */
static bool read_request(struct grpc_task *t, struct slice message, bool *ret_known)
{
	health_request *m = grpc__health__v1__health_check_request__unpack(
		NULL, message.len, (const uint8_t *)message.ptr);

	if (m == NULL) {
		task_fail(t, GRPC_INVALID_ARGUMENT, "not a HealthCheckRequest");
		return false;
	}
	*ret_known = is_known(m->service);
	grpc__health__v1__health_check_request__free_unpacked(m, NULL);
	return true;
}

void health_check(struct grpc_task *t, struct slice message)
{
	health_response response;
	bool known;

	if (!read_request(t, message, &known))
		return;
	fill(t, &response);
	if (known)
		task_answer(t, &response.base);
	else
		task_fail(t, GRPC_NOT_FOUND, "there is no service of that name here");
}

void health_watch(struct grpc_task *t, struct slice message)
{
	health_response response;

	if (!read_request(t, message, &t->watches))
		return;
	fill(t, &response);
	if (!t->watches)
		response.status = STATUS(SERVICE_UNKNOWN);
	task_send(t, &response.base);
}

void health_leave(struct grpc_task *t)
{
	health_response response;

	fill(t, &response);
	response.status = STATUS(NOT_SERVING);
	task_send(t, &response.base);
}

void health_list(struct grpc_task *t, struct slice message)
{
	Grpc__Health__V1__HealthListResponse response;
	health_response status;
	health_entry entry[SERVICES_MAX], *entries[SERVICES_MAX];
	size_t n = 0;

	(void)message; /* it has no fields */
	fill(t, &status);
	grpc__health__v1__health_list_response__init(&response);
	for (size_t i = 0; grpc_services[i] != NULL && n + 1 < SERVICES_MAX; i++) {
		grpc__health__v1__health_list_response__statuses_entry__init(&entry[n]);
		entry[n].key = (char *)(uintptr_t)grpc_services[i];
		entry[n].value = &status;
		entries[n] = &entry[n];
		n++;
	}
	grpc__health__v1__health_list_response__statuses_entry__init(&entry[n]);
	entry[n].value = &status; /* "": the agent */
	entries[n] = &entry[n];
	response.n_statuses = n + 1;
	response.statuses = entries;
	task_answer(t, &response.base);
}
