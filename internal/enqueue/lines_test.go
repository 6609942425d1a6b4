package enqueue

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// cut reads all of in and returns its lines as "number:text", "number:long" for one that
// was too long, with the sizes added up.
func cut(t *testing.T, in io.Reader, max int) (lines []string, size int64, err error) {
	t.Helper()
	out := make(chan block)
	failed := make(chan error, 1)
	go func() { failed <- newReader(in, max).run(t.Context(), out) }()
	for b := range out {
		for i, l := range b.lines {
			text := "long"
			if !l.long {
				text = string(b.data[l.begin:l.end])
			}
			lines = append(lines, fmt.Sprintf("%d:%s", b.first+int64(i), text))
			size += l.size
		}
		if len(b.data) > blockBytes+max+endMax {
			t.Errorf("a block of %d bytes", len(b.data))
		}
	}
	return lines, size, <-failed
}

func TestLinesAreCut(t *testing.T) {
	const bom = "\xef\xbb\xbf"
	for _, c := range []struct {
		in   string
		want []string
	}{
		{"", nil},
		{"a", []string{"1:a"}},
		{"a\n", []string{"1:a"}},
		{"a\nb", []string{"1:a", "2:b"}},
		{"a\r\nb\r\n", []string{"1:a", "2:b"}},
		{"a\r\nb\r", []string{"1:a", "2:b"}},
		{"\n\na\n\n", []string{"1:", "2:", "3:a", "4:"}},
		{"a\rb\n", []string{"1:a\rb"}},
		{bom + "a\nb\n", []string{"1:a", "2:b"}},
		{bom, []string{"1:"}},
		{bom + "\r\na", []string{"1:", "2:a"}},
		{"a\n" + bom + "b", []string{"1:a", "2:" + bom + "b"}}, // it is no mark there
		{"12345678\n123456789\n1234\n", []string{"1:12345678", "2:long", "3:1234"}},
		{"12345678\r\n123456789\r\n12345678", []string{"1:12345678", "2:long", "3:12345678"}},
		{"1234567890123\nb", []string{"1:long", "2:b"}},
		{bom + "12345678\r\nb", []string{"1:12345678", "2:b"}},
		{bom + "123456789\nb", []string{"1:long", "2:b"}},
		{bom + "12345678901234567890\nb", []string{"1:long", "2:b"}},
		{"a\n12345678901234567890", []string{"1:a", "2:long"}},
	} {
		for name, in := range map[string]io.Reader{
			"whole": strings.NewReader(c.in), "byte by byte": iotest.OneByteReader(strings.NewReader(c.in)),
			"by halves": iotest.HalfReader(strings.NewReader(c.in)), "with the end": iotest.DataErrReader(strings.NewReader(c.in)),
		} {
			got, size, err := cut(t, in, 8)
			if !slices.Equal(got, c.want) || err != nil || size != int64(len(c.in)) {
				t.Errorf("%s %q: %q, %d bytes, %v; want %q", name, c.in, got, size, err, c.want)
			}
		}
	}
}

// Larger than any buffer, and of lines that cross the ends of all of them.
func TestManyLinesAreCut(t *testing.T) {
	var text strings.Builder
	var want []string
	for i := 1; text.Len() < 3*blockBytes; i++ {
		line := strings.Repeat("x", i%977) + fmt.Sprint(i)
		text.WriteString(line + "\n")
		want = append(want, fmt.Sprintf("%d:%s", i, line))
	}
	huge := strings.Repeat("y", 4*blockBytes)
	text.WriteString(huge + "\nend\n")
	want = append(want, fmt.Sprintf("%d:long", len(want)+1), fmt.Sprintf("%d:end", len(want)+2))
	got, _, err := cut(t, strings.NewReader(text.String()), 2000)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%d lines, %v; want %d", len(got), err, len(want))
	}
	if got, _, err = cut(t, strings.NewReader(text.String()), 8*blockBytes); err != nil || got[len(got)-2] != fmt.Sprintf("%d:%s", len(got)-1, huge) {
		t.Errorf("a line longer than the buffer: %v", err)
	}
}

// A line that never ends must not fill the memory.
func TestALineWithoutAnEnd(t *testing.T) {
	r := newReader(io.LimitReader(forever{}, 64<<20), 1<<10)
	b, err := r.block()
	if !errors.Is(err, io.EOF) || len(b.lines) != 1 || !b.lines[0].long || b.lines[0].size != 64<<20 {
		t.Errorf("%d lines, %v", len(b.lines), err)
	}
	if cap(b.data) > 2*blockBytes {
		t.Errorf("%d bytes were kept", cap(b.data))
	}
}

type forever struct{}

func (forever) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// Half a line is none: the other half may change what it says.
func TestAReadErrorIsNoEndOfALine(t *testing.T) {
	broken := errors.New("broken")
	got, _, err := cut(t, io.MultiReader(strings.NewReader("a\nb\n12"), iotest.ErrReader(broken)), 8)
	if !slices.Equal(got, []string{"1:a", "2:b"}) || !errors.Is(err, broken) {
		t.Errorf("%q, %v", got, err)
	}
}
