import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.Delivery;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * Publishes a delayed message to Leveret's default bridge with amqp-client, and waits for it.
 *
 * <pre>AMQP_URI=amqp://guest:guest@localhost:5672/%2f mvn -q compile exec:java</pre>
 */
public final class PublishDelayed {
    private static final String QUEUE = "leveret-example-java";
    private static final int DELAY_MS = 1500;
    private static final int PATIENCE_MS = 30_000;

    public static void main(String[] args) throws Exception {
        ConnectionFactory factory = new ConnectionFactory();
        factory.setUri(System.getenv().getOrDefault("AMQP_URI", "amqp://guest:guest@localhost:5672/%2f"));
        try (Connection connection = factory.newConnection(); Channel channel = connection.createChannel()) {
            channel.queueDeclare(QUEUE, true, false, false, null);
            BlockingQueue<Delivery> arrivals = new LinkedBlockingQueue<>();
            channel.basicConsume(QUEUE, true, (tag, delivery) -> arrivals.add(delivery), tag -> {});

            long published = System.nanoTime();
            publishDelayed(channel, QUEUE, "hello".getBytes(), DELAY_MS);

            Delivery delivery = arrivals.poll(PATIENCE_MS, TimeUnit.MILLISECONDS);
            long waited = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - published);
            channel.queueDelete(QUEUE);
            if (delivery == null) {
                throw new IllegalStateException("nothing arrived");
            }
            Object delay = delivery.getProperties().getHeaders().get("x-delay");
            System.out.printf("java: '%s' after %d ms, x-delay %s%n", new String(delivery.getBody()), waited, delay);
            if (waited < DELAY_MS) {
                throw new IllegalStateException("too early");
            }
        }
    }

    /** Returns when the broker has the message. */
    private static void publishDelayed(Channel channel, String key, byte[] body, long delayMs) throws Exception {
        channel.confirmSelect();
        // With mandatory, a message that no bridge takes comes back before its confirm.
        channel.addReturnListener(back -> System.err.println("no bridge took the message: " + back.getReplyText()));
        AMQP.BasicProperties properties = new AMQP.BasicProperties.Builder()
            .headers(Map.of("x-delay", delayMs))
            .deliveryMode(2)
            .build();
        boolean mandatory = true;
        channel.basicPublish("delay", key, mandatory, properties, body);
        channel.waitForConfirmsOrDie(PATIENCE_MS);
    }
}
