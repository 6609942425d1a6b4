package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/klauspost/compress/zstd"

	"example.com/whctl/internal/work"
)

// compress is text as one frame.
func compress(t testing.TB, text []byte) []byte {
	t.Helper()
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window))
	if err != nil {
		t.Fatal(err)
	}
	return enc.EncodeAll(text, nil)
}

// forge makes an archive with a manifest that fits by its checksum, whatever the frame.
func forge(t testing.TB, frame []byte, deliveries, attempts int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "forged.ndjson.zst")
	writeFile(t, path, frame)
	sum := sha256.Sum256(frame)
	writeFile(t, path+manifestSuffix, manifestLine(t, entry{
		BatchKey: "b", Bytes: int64(len(frame)), SHA256: hex.EncodeToString(sum[:]), Deliveries: deliveries, Attempts: attempts,
	}))
	return path
}

func manifestLine(t testing.TB, e entry) []byte {
	t.Helper()
	line, err := e.line()
	if err != nil {
		t.Fatal(err)
	}
	return line
}

func lines(t testing.TB, rows []work.Archived) []byte {
	t.Helper()
	var text []byte
	for i := range rows {
		var err error
		if text, err = appendRow(text, &rows[i]); err != nil {
			t.Fatal(err)
		}
	}
	return text
}

// Frames whose checksum fits and that are no batch all the same.
func TestFramesThatAreNoBatch(t *testing.T) {
	two := lines(t, batch(1, 2))
	for name, test := range map[string]struct {
		frame                []byte
		deliveries, attempts int
		want                 string
	}{
		"in order":             {compress(t, two), 2, 2, ""},
		"no frame":             {[]byte("no frame at all"), 1, 0, "line 1: "},
		"half a frame":         {compress(t, two)[:60], 2, 2, "line 1: "},
		"a bit over":           {append(compress(t, two), 1), 2, 2, "line 3: "},
		"fewer rows":           {compress(t, two), 3, 2, "2 deliveries and 2 attempts, where the manifest has 3 and 2"},
		"more rows":            {compress(t, two), 1, 2, "more than the 1 deliveries that the manifest has"},
		"another count":        {compress(t, two), 2, 1, "2 deliveries and 2 attempts, where the manifest has 2 and 1"},
		"no end of a line":     {compress(t, two[:len(two)-1]), 2, 2, "its last line has no end"},
		"no row":               {compress(t, append(bytes.Clone(two), "{}\n"...)), 3, 2, "line 3: want one of payload and payload_base64"},
		"a line that is empty": {compress(t, append(bytes.Clone(two), '\n')), 3, 2, "line 3: the line is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			path := forge(t, test.frame, test.deliveries, test.attempts)
			r := verify(t, path)
			if len(r.Batches) != 1 || r.OK() != (test.want == "") || !strings.HasPrefix(r.Batches[0].Problem, test.want) {
				t.Errorf("%+v", r)
			}
			got, err := read(path)
			if len(got) != 1 && test.want == "" || len(got) != 0 && test.want != "" || (err == nil) != (test.want == "") {
				t.Errorf("%d batches, %v", len(got), err)
			}
		})
	}
}

// A few bytes can stand for any number of them.
func TestFramesThatGrow(t *testing.T) {
	const limit = 1 << 20
	bomb := compress(t, make([]byte, 40<<20))
	for name, test := range map[string]struct {
		text []byte
		want string
	}{
		"one line":       {make([]byte, 40<<20), "more than 1048576 bytes"},
		"many lines":     {bytes.Repeat([]byte("\n"), 40<<20), "line 1: "},
		"at the limit":   {bytes.Repeat([]byte(" "), limit), "its last line has no end"},
		"one byte above": {bytes.Repeat([]byte(" "), limit+1), "more than 1048576 bytes"},
		"rows":           {lines(t, busy(2000)), "more than 1048576 bytes"},
	} {
		frame := compress(t, test.text)
		if name == "one line" && len(frame) > len(bomb) {
			t.Fatalf("%d bytes", len(frame))
		}
		r, err := walk(forge(t, frame, 10_000, 10_000), limit, nil)
		if err != nil || len(r.Batches) != 1 || !strings.HasPrefix(r.Batches[0].Problem, test.want) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	// A window of 8 MiB, which the decoder would have to keep (RFC 8878, section 3.1.1.1.2).
	wide := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 13 << 3, 0x03, 0x00, 0x10, 0x00}
	if r := verify(t, forge(t, wide, 1, 0)); r.OK() || !strings.Contains(r.Batches[0].Problem, "window") {
		t.Errorf("%+v", r)
	}
}

// A history of brackets must not become a hundred times its size.
func TestAHistoryOfBrackets(t *testing.T) {
	text := []byte(`{"delivery_id":"a","history":[` + strings.Repeat("{},", 100_000) + "{}]}\n")
	var h history
	if err := json.Unmarshal(text[bytes.IndexByte(text, '['):len(text)-2], &h); err == nil || len(h) != 0 {
		t.Errorf("%d attempts, %v", len(h), err)
	}
}

// What is wrong with the manifest is told, and costs no batch that is in order.
func TestManifestsThatDoNotFit(t *testing.T) {
	path := archived(t)
	whole := strings.SplitAfter(string(readFile(t, path+manifestSuffix)), "\n")
	batches := verify(t, path).Batches
	ends := func(i int) int64 { return batches[i].Offset + batches[i].Bytes }
	other := func(i int, change func(*entry)) string {
		var e entry
		if err := json.Unmarshal([]byte(whole[i]), &e); err != nil {
			t.Fatal(err)
		}
		change(&e)
		return string(manifestLine(t, e))
	}
	for name, test := range map[string]struct {
		lines []string
		sound string
		want  string
	}{
		"a line less":         {[]string{whole[0], whole[2]}, "b1 b3", fmt.Sprintf("the bytes from %d to %d are of no batch that the manifest names", ends(0), ends(1))},
		"a line twice":        {[]string{whole[0], whole[0], whole[1], whole[2]}, "b1 b2 b3", fmt.Sprintf("at 0 overlap the batch before, which ends at %d", ends(0))},
		"another order":       {[]string{whole[1], whole[0], whole[2]}, "b2 b3", "overlap the batch before"},
		"no JSON":             {[]string{whole[0], "what?\n", whole[2]}, "b1 b3", "line 2 of the manifest cannot be read: invalid character"},
		"no JSON at the end":  {[]string{whole[0], whole[1], "what?\n"}, "b1 b2", fmt.Sprintf("the bytes from %d to %d are of no batch that the manifest names", ends(1), ends(2))},
		"an empty line":       {[]string{whole[0], "\n", whole[1], whole[2]}, "b1 b2 b3", "line 2 of the manifest cannot be read: the line is empty"},
		"two on one line":     {[]string{whole[0], strings.TrimSpace(whole[1]) + whole[1], whole[2]}, "b1 b3", "more than one value"},
		"a field more":        {[]string{whole[0], whole[1], strings.Replace(whole[2], "{", `{"codec":"lz4",`, 1)}, "b1 b2", `unknown field "codec"`},
		"a line that is long": {[]string{whole[0], strings.Repeat("x", maxEntry+1) + "\n", whole[2]}, "b1", "line 2 of the manifest: the line is too long; what follows was not looked at"},
		"another checksum":    {[]string{whole[0], other(1, func(e *entry) { e.SHA256 = strings.Repeat("0", 64) }), whole[2]}, "b1 b3", "the checksum is another"},
		"half a checksum":     {[]string{whole[0], other(1, func(e *entry) { e.SHA256 = "00" }), whole[2]}, "b1 b3", "sha256 is none"},
		"no key":              {[]string{whole[0], other(1, func(e *entry) { e.BatchKey = "" }), whole[2]}, "b1 b3", "batch_key has 0 bytes"},
		"before the file":     {[]string{other(0, func(e *entry) { e.Offset = -1 }), whole[1], whole[2]}, "b2 b3", "bytes at -1"},
		"no bytes":            {[]string{whole[0], other(1, func(e *entry) { e.Bytes = 0 }), whole[2]}, "b1 b3", "0 bytes at"},
		"an overflow":         {[]string{whole[0], other(1, func(e *entry) { e.Bytes = math.MaxInt64 }), whole[2]}, "b1 b3", "line 2 of the manifest cannot be read"},
		"a byte too many":     {[]string{whole[0], whole[1], other(2, func(e *entry) { e.Bytes++ })}, "b1 b2", fmt.Sprintf("reach past the end of the file, at %d: the file was cut off", ends(2))},
		"no deliveries":       {[]string{whole[0], whole[1], other(2, func(e *entry) { e.Deliveries = 0 })}, "b1 b2", "cannot be read: 0 deliveries with"},
	} {
		t.Run(name, func(t *testing.T) {
			writeFile(t, path+manifestSuffix, []byte(strings.Join(test.lines, "")))
			r := verify(t, path)
			if r.OK() || sound(r) != test.sound || r.Explained != nil {
				t.Errorf("%+v", r)
			}
			told := r.Problems
			for _, b := range r.Batches {
				told = append(told, b.Problem)
			}
			has(t, told, test.want)
			got, err := read(path)
			if err == nil || !strings.Contains(err.Error(), "archive "+path+" is damaged: ") || len(got) != len(strings.Fields(test.sound)) {
				t.Errorf("%d batches, %v", len(got), err)
			}
		})
	}
}

func TestWithoutAManifest(t *testing.T) {
	path := archived(t)
	if err := os.Remove(path + manifestSuffix); err != nil {
		t.Fatal(err)
	}
	r := verify(t, path)
	has(t, r.Problems, ".manifest.jsonl is missing: nothing vouches for the ")
	if got, err := read(path); r.OK() || len(r.Batches) != 0 || len(got) != 0 || err == nil {
		t.Errorf("%+v, %d batches, %v", r, len(got), err)
	}
	writeFile(t, path, nil)
	r = verify(t, path)
	has(t, r.Explained, "the file is empty and has no manifest")
	if !r.OK() {
		t.Errorf("%+v", r)
	}
	writeFile(t, path+manifestSuffix, nil)
	r = verify(t, path)
	has(t, r.Explained, "there is no batch in it")
	if !r.OK() {
		t.Errorf("%+v", r)
	}
}

func TestWhatIsNoArchive(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	large := filepath.Join(dir, "large")
	writeFile(t, large, nil)
	writeFile(t, large+manifestSuffix, nil)
	if err := os.Truncate(large+manifestSuffix, maxManifest+1); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "none"): "no such file", dir: "is no regular file", pipe: "is no regular file", large: "more than whctl writes",
	} {
		if _, err := Verify(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
		if _, err := read(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := Verify(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no sentinel: %v", err)
	}
}

// An archive that a run is writing is in order at every moment. It writes as fast as it
// can, again and again from the start, for the moments that matter are short.
func TestVerifyWhileARunIsWriting(t *testing.T) {
	for range 100 {
		w := newWriter(t, t.TempDir())
		w.create = (&disk{}).create // which never waits for the disk
		path := filepath.Join(w.run.Dir, mustAppend(t, w, "b0", batch(1, 1)).File)
		written := make(chan error, 1)
		go func() {
			var err error
			for i := 1; i <= 20 && err == nil; i++ {
				_, err = w.Append(fmt.Sprint("b", i), batch(1, 1))
			}
			written <- err
		}()
		for writing := true; writing; {
			if r := verify(t, path); !r.OK() {
				t.Fatal(r.Err(), <-written) // it must not be closed before
			}
			select {
			case err := <-written:
				if err != nil {
					t.Fatal(err)
				}
				writing = false
			default:
			}
		}
	}
}

// The end of reading is the caller's to choose.
func TestReadStops(t *testing.T) {
	calls := 0
	err := Read(archived(t), func(Batch, []work.Archived) error {
		calls++
		return io.ErrNoProgress
	})
	if !errors.Is(err, io.ErrNoProgress) || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
}

// agree says that Verify and Read find the same, and nothing that cannot be.
func agree(t *testing.T, path string) {
	t.Helper()
	r, err := Verify(path)
	if err != nil {
		t.Fatal(err)
	}
	var deliveries, attempts, end int64
	readErr := Read(path, func(b Batch, rows []work.Archived) error {
		if b.Problem != "" || len(rows) != b.Deliveries || b.Offset < end || b.Offset+b.Bytes > r.Bytes {
			t.Fatalf("%+v with %d rows was handed out", b, len(rows))
		}
		end = b.Offset + b.Bytes
		for i := range rows {
			if err := rows[i].Check(); err != nil {
				t.Fatal(err)
			}
			attempts += int64(len(rows[i].History))
		}
		deliveries += int64(len(rows))
		return nil
	})
	if deliveries != r.Deliveries || attempts != r.Attempts || (readErr == nil) != r.OK() {
		t.Fatalf("%d deliveries and %d attempts were read, %v: %+v", deliveries, attempts, readErr, r)
	}
}

// FuzzVerify: no file and no manifest makes it panic.
func FuzzVerify(f *testing.F) {
	path := archived(f)
	data, list := readFile(f, path), readFile(f, path+manifestSuffix)
	f.Add(data, list)
	f.Add(data[:len(data)-3], list)
	f.Add(data, list[:len(list)-3])
	f.Add([]byte{}, []byte("{}\n\n"))
	f.Fuzz(func(t *testing.T, data, list []byte) {
		path := filepath.Join(t.TempDir(), "f")
		writeFile(t, path, data)
		writeFile(t, path+manifestSuffix, list)
		agree(t, path)
	})
}

// FuzzFrame: no frame does, when the manifest vouches for it.
func FuzzFrame(f *testing.F) {
	for n := 1; n <= 3; n++ {
		f.Add(lines(f, batch(1, n)), n, n, true)
		f.Add(compress(f, lines(f, batch(1, n))), n, n, false)
	}
	f.Fuzz(func(t *testing.T, frame []byte, deliveries, attempts int, text bool) {
		if len(frame) == 0 {
			return
		}
		if text {
			frame = compress(t, frame)
		}
		agree(t, forge(t, frame, deliveries, attempts))
	})
}
