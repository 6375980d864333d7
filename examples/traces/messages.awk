# Writes the messages of so many activities (-v activities=1000): each passes through three services, in and out. The payment
# of every tenth activity fails. Two activities belong to one order; with -v orders=1 the orders are written instead.
BEGIN {
    split("shop stock payment", services, " ")
    split("order reserve pay", operations, " ")
    for (activity = 0; activity < activities; activity++) {
        id = sprintf("activity-%06d", activity)
        if (orders) {
            if (activity % 2 == 0)
                printf "{\"order_id\":%d,\"activities\":[\"%s\",\"activity-%06d\"],\"customer\":\"customer-%d\"}\n", \
                    activity / 2, id, activity + 1, activity % 7
            continue
        }
        for (place = 1; place <= 3; place++) {
            failed = place == 3 && activity % 10 == 9
            for (leg = 0; leg < 2; leg++)
                printf "{\"activity_id\":\"%s\",\"host\":\"host-%d\",\"service\":\"%s\",\"operation\":\"%s\",\"direction\":\"%s\",\"status\":\"%s\",\"body\":\"%s\"}\n", \
                    id, activity % 4, services[place], operations[place], leg ? "OUT" : "IN", \
                    failed && leg ? "FAILED" : "OK", failed && leg ? "card declined" : "order " int(activity / 2)
        }
    }
}
