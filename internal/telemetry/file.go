package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"example.com/whctl/internal/work"
)

const (
	// writeEvery is how often a worker writes the file at least: as often as it is usually read.
	writeEvery = 15 * time.Second
	// maxFile bounds what is read of the file that a run finds. Ours is a few kB.
	maxFile = 1 << 20
)

// File is the metrics in a file for node_exporter's textfile collector. Counters go on
// from those that it finds: a run from cron that began at 0 every minute would look like
// a counter that stands still whenever two runs did the same number of things.
type File struct {
	name    string
	metrics *Metrics
	former  map[string]*dto.MetricFamily // by the file that was there
}

// OpenFile reads the file that is there and writes it anew, so that one that cannot be
// written is an error, wrapping work.ErrConfig, before anything is done.
func (m *Metrics) OpenFile(name string) (*File, error) {
	former, err := readFile(name)
	if err != nil {
		return nil, fmt.Errorf("%w: metrics file: %w", work.ErrConfig, err)
	}
	f := &File{name: name, metrics: m, former: former}
	if err := f.Write(); err != nil {
		return nil, fmt.Errorf("%w: %w", work.ErrConfig, err)
	}
	return f, nil
}

// readFile is what is counted in a file of ours; nothing where there is none. One that
// cannot be understood is not written over: it may be something else.
func readFile(name string) (map[string]*dto.MetricFamily, error) {
	file, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%s is no regular file", name), err)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(io.LimitReader(file, maxFile))
	if err != nil {
		return nil, fmt.Errorf("%s is there and holds no metrics: %w", name, err)
	}
	return families, nil
}

// Write writes the file by way of another one beside it: a reader sees the old or the new.
func (f *File) Write() error {
	if err := prometheus.WriteToTextfile(f.name, prometheus.GathererFunc(f.gather)); err != nil {
		return fmt.Errorf("metrics file: %w", err)
	}
	return nil
}

// WriteUntil writes it from time to time until ctx ends, and tells what kept it from
// that. The last word is Write's. What has been counted is written at once: on a clock of
// its own the file would be a count behind.
func (f *File) WriteUntil(ctx context.Context, failed func(error)) {
	tick := time.NewTicker(writeEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-f.metrics.counted:
		case <-ctx.Done():
			return
		}
		if err := f.Write(); err != nil {
			failed(err)
		}
	}
}

// gather is what this run counted, on top of what the file held.
func (f *File) gather() ([]*dto.MetricFamily, error) {
	families, err := f.metrics.registry.Gather()
	if err != nil {
		return nil, err
	}
	for _, family := range families {
		before := f.former[family.GetName()]
		if before.GetType() != family.GetType() {
			continue
		}
		for _, m := range family.GetMetric() {
			if old := counterpart(before, m); old != nil {
				carry(family.GetName(), m, old)
			}
		}
	}
	return families, nil
}

// carry adds what was counted before. The last success stays where there is none yet.
func carry(name string, m, old *dto.Metric) {
	switch {
	case m.Counter != nil:
		*m.Counter.Value += old.GetCounter().GetValue()
	case m.Histogram != nil && sameBounds(m.Histogram, old.GetHistogram()):
		*m.Histogram.SampleCount += old.GetHistogram().GetSampleCount()
		*m.Histogram.SampleSum += old.GetHistogram().GetSampleSum()
		for i, b := range m.Histogram.Bucket {
			*b.CumulativeCount += old.GetHistogram().GetBucket()[i].GetCumulativeCount()
		}
	case name == lastSuccess && m.GetGauge().GetValue() == 0:
		*m.Gauge.Value = old.GetGauge().GetValue()
	}
}

// sameBounds: a file has the bucket of infinity besides.
func sameBounds(h, old *dto.Histogram) bool {
	for i, b := range h.GetBucket() {
		if i >= len(old.GetBucket()) || old.GetBucket()[i].GetUpperBound() != b.GetUpperBound() {
			return false
		}
	}
	return true
}

// counterpart is the metric of a family with the labels of m.
func counterpart(family *dto.MetricFamily, m *dto.Metric) *dto.Metric {
	for _, c := range family.GetMetric() {
		if len(c.GetLabel()) == len(m.GetLabel()) && (len(m.GetLabel()) == 0 || c.GetLabel()[0].GetValue() == m.GetLabel()[0].GetValue()) {
			return c
		}
	}
	return nil
}
