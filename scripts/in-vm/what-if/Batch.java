import java.io.FileInputStream;
import java.util.ArrayList;
import java.util.TreeMap;

/** A batch of two threads that fill and drop trees, so that the collector works: for programs.sh. It begins with a line from the pipe of its argument. */
public class Batch {
    static long fill(int entries, int seed) {
        TreeMap<Integer, byte[]> tree = new TreeMap<>();
        int value = seed;
        for (int at = 0; at < entries; at++) {
            value = value * 1103515245 + 12345;
            tree.put(value >>> 8, new byte[200]);
        }
        return tree.firstKey();
    }

    public static void main(String[] words) throws Exception {
        for (int at = 0; at < 20; at++) fill(1000, at);
        new FileInputStream(words[0]).read();
        long began = System.nanoTime();
        ArrayList<Thread> threads = new ArrayList<>();
        for (int number = 0; number < 2; number++) {
            int seed = number;
            threads.add(new Thread(() -> { for (int at = 0; at < 25; at++) fill(12000, seed * 100 + at); }, "batch-" + number));
        }
        for (Thread thread : threads) thread.start();
        for (Thread thread : threads) thread.join();
        System.out.printf("seconds %.3f%n", (System.nanoTime() - began) / 1e9);
    }
}
