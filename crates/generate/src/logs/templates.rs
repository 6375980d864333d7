//! The texts of log lines: services, messages by frequency, messages in other scripts, frames of stack traces.
//!
//! In a message, `%u` is the user, `%x` an id, `%p` a path, `%n` a number, `%d` a duration, `%i` an address, `%w` a name,
//! `%m` an HTTP method, `%t` a table, and `%v` a service.

/// A message, and the level at which it is written.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) level: &'static str,
    pub(super) text: &'static str,
}

const fn message(level: &'static str, text: &'static str) -> Message {
    Message { level, text }
}

/// The messages from the most frequent to the rarest. `connection` and `timeout` are each in a tenth of all messages, and
/// side by side in three of a hundred.
pub(super) const MESSAGES: [Message; 40] = [
    message(
        "INFO",
        "request completed: %m %p by user %u in %d ms, %n bytes sent, cache key %w/%w, version %x",
    ),
    message("DEBUG", "cache hit for key %w:%u:%w after %d us, generation %x, %n entries in segment %w"),
    message("INFO", "request accepted: %m %p from %i:%n, user %u, session %x, client %w/%n"),
    message("DEBUG", "query on %t returned %n rows in %d ms, plan %x, index %w, %n pages read, filter %w"),
    message("INFO", "connection opened to %i:%n, pool %w has %n idle and %n busy sockets, cipher %w"),
    message("WARN", "upstream timeout: %v did not answer %m %p within %d ms, attempt %n, key %x"),
    message("INFO", "order %x placed by user %u: %n items, total %n.50 EUR, coupon %w, warehouse %w"),
    message("WARN", "connection timeout: peer %i:%n of pool %w was silent for %d ms, %n requests moved"),
    message("INFO", "session %x of user %u renewed for %n seconds, device %w, address %i, agent %w"),
    message("WARN", "lock timeout on %t: row %x is held by transaction %n for %d ms, owner %w"),
    message("INFO", "connection closed by %i:%n after %n bytes and %d ms, reason %w, pool %w, next %x"),
    message("DEBUG", "feature flag %w is off for user %u, rule %x, segment %w, evaluated in %d us"),
    message("INFO", "message published to topic %w, partition %n, offset %n, key %x, %n bytes, codec %w"),
    message("INFO", "message consumed from topic %w, partition %n, offset %n, key %x, lag %n, group %w"),
    message("WARN", "slow query on %t: %d ms for %n rows, plan %x, missing index %w, session %w"),
    message("INFO", "job %w finished after %d ms: %n rows written to %p, checksum %x, next run %w"),
    message("INFO", "file %p uploaded by user %u, %n bytes, digest %x, bucket %w, class %w"),
    message("DEBUG", "token of user %u verified, issuer %w, key %x, audience %v, scope %w, valid for %n s"),
    message("INFO", "payment %x authorised for user %u, amount %n.99 EUR, provider %w, risk score %n"),
    message("ERROR", "connection refused by %i:%n while calling %v, %m %p, breaker %w counts %n"),
    message("WARN", "retry %n of %m %p at %v in %d ms, last status 503, idempotency key %x"),
    message("INFO", "health check of %v passed in %d ms, %n dependencies, revision %x, zone %w"),
    message("INFO", "email %x queued for user %u, template %w, language en, campaign %w, size %n"),
    message("WARN", "rate limit reached by user %u at %m %p, bucket %w refills in %d ms, %n dropped"),
    message("INFO", "configuration %w reloaded from %p, revision %x, %n settings changed, author %w"),
    message("DEBUG", "garbage collection paused for %d ms, %n MB freed, cause %w, heap %n MB, cycle %x"),
    message("INFO", "deployment %x of %v moved to phase %w, %n of %n instances ready, image %w"),
    message("ERROR", "payment %x declined for user %u, provider %w, code %n, order %x, reason %w"),
    message("ERROR", "deadline exceeded: timeout of %d ms for %m %p at %v, budget %n, caller %w"),
    message("WARN", "disk usage of volume %w is high, %n MB left at %p, oldest segment %x"),
    message("ERROR", "unhandled exception in %m %p, user %u, incident %x, handler %w"),
    message("INFO", "shard %n of index %w rebalanced to %i:%n in %d ms, %n documents, epoch %x"),
    message("INFO", "certificate %x of %w renewed, valid for %n days, issuer %w, host %i"),
    message("WARN", "invalid token from %i:%n, issuer %w, key %x, path %p, blocked for %n s"),
    message("ERROR", "checksum mismatch in %p, block %n, expected %x, found %x, replica %w"),
    message("INFO", "search index %w refreshed in %d ms, %n documents, %n deletions, commit %x"),
    message("ERROR", "replica %w of %t lags by %n ms, position %x, leader %i:%n, suspended"),
    message("WARN", "circuit breaker %w opened for %v after %n failures, half open in %d ms, id %x"),
    message("INFO", "backup %x of %t stored at %p, %n MB in %d ms, retention %n days, key %w"),
    message("ERROR", "worker %n killed: out of memory at %n MB, request %x, handler %w, path %p"),
];

/// Messages in other scripts: Han, kana, Hangul, Thai, Arabic, Cyrillic, Devanagari, and emoji.
pub(super) const TRANSLATED: [&str; 16] = [
    "用户 %u 的订单 %x 已提交，共 %n 件商品，仓库 %w",
    "连接数据库超时：表 %t 在 %d 毫秒内没有响应，节点 %w",
    "ユーザー %u のセッション %x がタイムアウトしました、%d ミリ秒、理由 %w",
    "データベースへの接続に失敗しました：%t、再試行 %n 回、キー %w",
    "사용자 %u 의 결제 %x 가 승인되었습니다, 금액 %n 원, 공급자 %w",
    "서버 연결 시간이 초과되었습니다: %i, %d 밀리초, 풀 %w",
    "ผู้ใช้ %u เข้าสู่ระบบไม่สำเร็จ รหัส %x ครั้งที่ %n เหตุผล %w",
    "การเชื่อมต่อกับฐานข้อมูล %t หมดเวลาหลังจาก %d มิลลิวินาที %w",
    "فشل الاتصال بالخادم %i بعد %d مللي ثانية، المستخدم %u، السبب %w",
    "تم إنشاء الطلب %x للمستخدم %u بنجاح، العدد %n، المستودع %w",
    "Соединение с сервером %i закрыто через %d мс, причина %w",
    "Заказ %x пользователя %u отправлен, товаров %n, склад %w",
    "उपयोगकर्ता %u का भुगतान %x अस्वीकार किया गया, कोड %n, कारण %w",
    "सर्वर %i से कनेक्शन का समय समाप्त हुआ, %d मिलीसेकंड, पूल %w",
    "🚀 deployment %x is live 🎉 %n instances, image %w",
    "❤️ user %u left a review 👍🏽 %n stars, product %w 🛒",
];

pub(super) const SERVICES: [&str; 24] = [
    "checkout",
    "catalog",
    "payments",
    "accounts",
    "search",
    "inventory",
    "shipping",
    "gateway",
    "sessions",
    "pricing",
    "billing",
    "reviews",
    "media",
    "mailer",
    "ledger",
    "fraud",
    "profiles",
    "reports",
    "scheduler",
    "webhooks",
    "recommendations",
    "notifications",
    "translations",
    "audit",
];

pub(super) const PATHS: [&str; 12] = [
    "/api/v1/orders/",
    "/api/v1/users/",
    "/api/v2/products/",
    "/api/v1/carts/",
    "/internal/accounts/",
    "/api/v2/search/",
    "/static/images/",
    "/api/v1/invoices/",
    "/api/v1/payments/",
    "/data/segments/",
    "/api/v2/reviews/",
    "/internal/reports/",
];

pub(super) const TABLES: [&str; 10] = [
    "orders",
    "users",
    "products",
    "carts",
    "invoices",
    "payments",
    "sessions",
    "reviews",
    "shipments",
    "audit_trail",
];

/// Package, class and method.
pub(super) const FRAMES: [(&str, &str, &str); 12] = [
    ("orders", "OrderService", "place"),
    ("orders.storage", "OrderRepository", "findByCustomer"),
    ("payments", "PaymentClient", "authorise"),
    ("http", "RequestDispatcher", "dispatch"),
    ("http.filters", "AuthenticationFilter", "doFilter"),
    ("pool", "ConnectionPool", "acquire"),
    ("retry", "RetryTemplate", "execute"),
    ("cache", "SegmentedCache", "computeIfAbsent"),
    ("scheduling", "WorkerThread", "runTask"),
    ("sql", "PreparedQuery", "fetchRows"),
    ("json", "EventDecoder", "decode"),
    ("metrics", "TimedInvocation", "invoke"),
];
