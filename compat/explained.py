"""Differences that are known and meant: (suite, test) to the sentence that stands in docs/compatibility.md."""

POLICIES = "`rabbitmqctl set_policy` speaks to RabbitMQ alone; policies are set by HTTP and commands of our own."
PERMISSIONS = "`rabbitmqctl set_permissions` speaks to RabbitMQ alone; tests/compat/test_access.py asks both brokers."
NOWHERE = "A message that reaches no queue waits at no gate, and its connection is not told that it is blocked."
LIMIT = "channel_max is 2,047 and cannot be set with `rabbitmqctl eval` while the broker runs."

ALARM = "A blocked connection is read, and its close answered; RabbitMQ reads nothing until the alarm is over."

GO, FUNCTIONAL, SERVER = "amqp091-go", "java-functional", "java-server"
_POLICIES = ("tTL", "tTLArgs", "expires", "expiresArgs", "maxLength", "maxLengthArgs", "alternateExchange",
             "alternateExchangeArgs", "deadLetterExchange", "deadLetterExchangeArgs")  # fmt: skip
_PERMISSIONS = ("passiveDeclaration", "publish", "binding", "get", "auth", "purge", "noAccess", "dLXConfiguration",
                "consume", "altExchConfiguration", "exchangeConfiguration", "queueConfiguration")  # fmt: skip

EXPLAINED: dict[tuple[str, str], str] = {
    (GO, "TestConnection_Close_WhenMemoryAlarmIsActive"): ALARM,
    (FUNCTIONAL, "QosTests.messageLimitPrefetchSizeFails"): "A prefetch in bytes is kept, not refused with 540.",
    (FUNCTIONAL, "UserIDHeader.impersonatedUserId"): "There is no tag impersonator.",
    (FUNCTIONAL, "ConnectionRecovery.blockedListenerRecovery"): NOWHERE,
    (SERVER, "BlockedConnection.testBlock"): NOWHERE,
    (SERVER, "BlockedConnection.initialBlock"): NOWHERE,
    (SERVER, "Firehose.firehose"): "amq.rabbitmq.trace gets nothing: there is no `rabbitmqctl trace_on`.",
    (SERVER, "TopicPermissions.topicPermissions"): PERMISSIONS,
    (SERVER, "ChannelLimitNegotiation.openingTooManyChannels"): LIMIT,
    (SERVER, "ChannelLimitNegotiation.channelMaxGreaterThanServerValue"): LIMIT,
    **{(FUNCTIONAL, f"Policies.{test}"): POLICIES for test in _POLICIES},
    **{(SERVER, f"Permissions.{test}"): PERMISSIONS for test in _PERMISSIONS},
}
