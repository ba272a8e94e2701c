import java.net.*;
import java.net.http.*;

/** Fetches over https and http with HttpURLConnection, then with HttpClient. */
public class Fetch {
    public static void main(String[] args) throws Exception {
        var at = new InetSocketAddress(args[0], Integer.parseInt(args[1]));
        var urls = new String[] {
            "https://allowed.example/hello.txt", "http://allowed.example/hello.txt"
        };
        for (var url : urls) {
            var connection = new URL(url).openConnection(new Proxy(Proxy.Type.HTTP, at));
            System.out.print(new String(connection.getInputStream().readAllBytes()));
        }
        var client = HttpClient.newBuilder().proxy(ProxySelector.of(at)).build();
        for (var url : urls) {
            var request = HttpRequest.newBuilder(URI.create(url)).build();
            System.out.print(client.send(request, HttpResponse.BodyHandlers.ofString()).body());
        }
    }
}
