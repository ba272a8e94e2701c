import java.io.RandomAccessFile;
import java.net.InetAddress;
import java.net.NetworkInterface;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.channels.FileChannel;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardWatchEventKinds;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;

/** What Java programs use of a kernel: each line told is a thing that works here. */
public final class Check {
    public static void main(String[] arguments) throws Exception {
        threads();
        processes();
        sockets();
        files();
        // Non-daemon threads of the runtime must not hold the program open.
        System.exit(0);
    }

    private static void check(boolean holds) {
        if (!holds) {
            throw new AssertionError();
        }
    }

    private static void threads() throws Exception {
        var pool = Executors.newFixedThreadPool(8);
        var sums = IntStream.range(0, 100)
                .mapToObj(number -> pool.submit(() -> number * number))
                .toList();
        int sum = 0;
        for (Future<Integer> one : sums) {
            sum += one.get();
        }
        check(sum == 328350);
        pool.shutdown();
        check(IntStream.range(0, 1_000_000).parallel().asLongStream().sum() == 499999500000L);
        System.gc();
        System.out.println("java threads");
    }

    private static void processes() throws Exception {
        var java = ProcessHandle.current().info().command().orElseThrow();
        var child = new ProcessBuilder(java, "-version").redirectErrorStream(true).start();
        check(new String(child.getInputStream().readAllBytes()).contains("version"));
        check(child.waitFor() == 0);
        System.out.println("java processes");
    }

    private static void sockets() throws Exception {
        try (var server = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
                var client = new Socket(server.getInetAddress(), server.getLocalPort());
                var accepted = server.accept()) {
            client.setTcpNoDelay(true);
            client.setKeepAlive(true);
            accepted.getOutputStream().write(42);
            check(client.getInputStream().read() == 42);
        }
        check(NetworkInterface.networkInterfaces().count() > 0);
        System.out.println("java sockets");
    }

    private static void files() throws Exception {
        var watcher = FileSystems.getDefault().newWatchService();
        Path.of(".").register(watcher, StandardWatchEventKinds.ENTRY_CREATE);
        try (var file = new RandomAccessFile("mapped", "rw")) {
            var memory = file.getChannel().map(FileChannel.MapMode.READ_WRITE, 0, 4096);
            memory.put(0, (byte) 42);
            memory.force();
        }
        check(watcher.poll(10, TimeUnit.SECONDS) != null);
        Files.copy(Path.of("mapped"), Path.of("copied"));
        check(Files.size(Path.of("copied")) == 4096);
        System.out.println("java files");
    }
}
