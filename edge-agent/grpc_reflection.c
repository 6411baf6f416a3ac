/*
 * grpc.reflection.v1, and v1alpha, whose messages are the same: which services there are, and the files in proto/ that
 * describe them, as the build has compiled them.
 */
#include <grpc/reflection/v1/reflection.pb-c.h>
#include <proto_descriptors.h>

#include "core/proto_wire.h"
#include "grpc_task.h"

typedef Grpc__Reflection__V1__ServerReflectionRequest reflection_request;
typedef Grpc__Reflection__V1__ServerReflectionResponse reflection_response;

#define REQUEST(name) GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_##name
#define RESPONSE(name) GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_##name

enum { SERVICES_MAX = 8 };

/* Fields of google.protobuf.FileDescriptorSet and FileDescriptorProto. */
enum {
	SET_FILE = 1,
	FILE_NAME = 1,
	FILE_PACKAGE = 2,
	FILE_MESSAGE = 4,
	FILE_ENUM = 5,
	FILE_SERVICE = 6,
	/* Whatever is defined has its name so, and what is defined within it (fields, types, values, methods) behind. */
	DEFINED_NAME = 1,
	DEFINED_LAST = 4,
};

static bool field_next(struct slice *rest, struct wire_field *f)
{
	return wire_next(rest, f) == KOVA_OK;
}

static struct slice text_field(struct slice message, uint32_t number)
{
	struct wire_field f;

	while (field_next(&message, &f))
		if (wire_is(&f, number, WIRE_BYTES))
			return f.bytes;
	return (struct slice){NULL, 0};
}

/* Takes `name` and a dot off *path, if it begins so. */
static bool cut_name(struct slice *path, struct slice name)
{
	if (path->len <= name.len || path->ptr[name.len] != '.' ||
	    memcmp(path->ptr, name.ptr, name.len) != 0)
		return false;
	*path = slice_after(*path, name.len + 1);
	return true;
}

/* Whether `path` names what is defined here, or something within. */
static bool defines(struct slice definition, struct slice path)
{
	struct slice name = text_field(definition, DEFINED_NAME);
	struct wire_field f;

	if (slice_equal(name, path))
		return true;
	if (name.len == 0 || !cut_name(&path, name))
		return false;
	while (field_next(&definition, &f))
		if (f.type == WIRE_BYTES && f.number > DEFINED_NAME && f.number <= DEFINED_LAST &&
		    defines(f.bytes, path))
			return true;
	return false;
}

static bool file_has_symbol(struct slice file, struct slice symbol)
{
	struct wire_field f;

	if (!cut_name(&symbol, text_field(file, FILE_PACKAGE)))
		return false;
	while (field_next(&file, &f))
		if (f.type == WIRE_BYTES && f.number >= FILE_MESSAGE && f.number <= FILE_SERVICE &&
		    defines(f.bytes, symbol))
			return true;
	return false;
}

static bool file_is_named(struct slice file, struct slice name)
{
	return slice_equal(text_field(file, FILE_NAME), name);
}

/* The file for which `fits` says so; empty: there is none. */
static struct slice find_file(bool (*fits)(struct slice file, struct slice text), const char *text)
{
	struct slice set = {(const char *)proto_descriptors, proto_descriptors_len};
	struct wire_field f;

	while (field_next(&set, &f))
		if (wire_is(&f, SET_FILE, WIRE_BYTES) && fits(f.bytes, slice_of(text)))
			return f.bytes;
	return (struct slice){NULL, 0};
}

static void send_error(struct grpc_task *t, reflection_response *r, enum grpc_status status,
		       const char *text)
{
	Grpc__Reflection__V1__ErrorResponse error;

	grpc__reflection__v1__error_response__init(&error);
	error.error_code = (int32_t)status;
	error.error_message = (char *)(uintptr_t)text;
	r->message_response_case = RESPONSE(ERROR_RESPONSE);
	r->error_response = &error;
	task_send(t, &r->base);
}

static void send_file(struct grpc_task *t, reflection_response *r, struct slice file)
{
	Grpc__Reflection__V1__FileDescriptorResponse files;
	ProtobufCBinaryData bytes = {file.len, (uint8_t *)(uintptr_t)file.ptr};

	if (file.len == 0) {
		send_error(t, r, GRPC_NOT_FOUND, "there is no such file or symbol");
		return;
	}
	grpc__reflection__v1__file_descriptor_response__init(&files);
	files.n_file_descriptor_proto = 1;
	files.file_descriptor_proto = &bytes;
	r->message_response_case = RESPONSE(FILE_DESCRIPTOR_RESPONSE);
	r->file_descriptor_response = &files;
	task_send(t, &r->base);
}

static void send_services(struct grpc_task *t, reflection_response *r)
{
	Grpc__Reflection__V1__ServiceResponse service[SERVICES_MAX], *services[SERVICES_MAX];
	Grpc__Reflection__V1__ListServiceResponse list;
	size_t n = 0;

	for (; n < SERVICES_MAX && grpc_services[n] != NULL; n++) {
		grpc__reflection__v1__service_response__init(&service[n]);
		service[n].name = (char *)(uintptr_t)grpc_services[n];
		services[n] = &service[n];
	}
	grpc__reflection__v1__list_service_response__init(&list);
	list.n_service = n;
	list.service = services;
	r->message_response_case = RESPONSE(LIST_SERVICES_RESPONSE);
	r->list_services_response = &list;
	task_send(t, &r->base);
}

/* No type here has extensions. */
static void send_extensions(struct grpc_task *t, reflection_response *r, char *type)
{
	Grpc__Reflection__V1__ExtensionNumberResponse extensions;

	if (find_file(file_has_symbol, type).len == 0) {
		send_error(t, r, GRPC_NOT_FOUND, "there is no such type");
		return;
	}
	grpc__reflection__v1__extension_number_response__init(&extensions);
	extensions.base_type_name = type;
	r->message_response_case = RESPONSE(ALL_EXTENSION_NUMBERS_RESPONSE);
	r->all_extension_numbers_response = &extensions;
	task_send(t, &r->base);
}

static void answer(struct grpc_task *t, reflection_request *m)
{
	reflection_response r;

	grpc__reflection__v1__server_reflection_response__init(&r);
	r.valid_host = m->host;
	r.original_request = m;
	switch (m->message_request_case) {
	case REQUEST(FILE_BY_FILENAME):
		send_file(t, &r, find_file(file_is_named, m->file_by_filename));
		return;
	case REQUEST(FILE_CONTAINING_SYMBOL):
		send_file(t, &r, find_file(file_has_symbol, m->file_containing_symbol));
		return;
	case REQUEST(LIST_SERVICES):
		send_services(t, &r);
		return;
	case REQUEST(ALL_EXTENSION_NUMBERS_OF_TYPE):
		send_extensions(t, &r, m->all_extension_numbers_of_type);
		return;
	case REQUEST(FILE_CONTAINING_EXTENSION):
		send_error(t, &r, GRPC_NOT_FOUND, "there are no extensions here");
		return;
	default:
		send_error(t, &r, GRPC_INVALID_ARGUMENT, "the request asks for nothing");
		return;
	}
}

void reflection_answer(struct grpc_task *t, struct slice message)
{
	reflection_request *m = grpc__reflection__v1__server_reflection_request__unpack(
		NULL, message.len, (const uint8_t *)message.ptr);

	if (m == NULL) {
		task_fail(t, GRPC_INVALID_ARGUMENT, "not a ServerReflectionRequest");
		return;
	}
	answer(t, m);
	grpc__reflection__v1__server_reflection_request__free_unpacked(m, NULL);
}
