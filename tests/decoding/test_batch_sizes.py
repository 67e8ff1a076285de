"""Sizes that are rounded up to few values."""

from transformer.decoding import batch_sizes


def test_powers_are_the_smallest_that_suffice():
    for base in (2, 4):
        powers = [base**n for n in range(12)]
        for size in range(1, 1025):
            expected = min(power for power in powers if power >= size)
            assert batch_sizes.next_power(base, size) == expected
    most = {1: 1, 3: 1, 4: 4, 15: 4, 16: 16, 99: 16}
    assert {n: batch_sizes.next_power(4, 7, most=n) for n in most} == most
    assert [batch_sizes.next_power_of_two(n) for n in (1, 16, 17, 32, 33)] == [16, 16, 32, 32, 64]
    assert [batch_sizes.next_power_of_two(n, 32) for n in (1, 33)] == [32, 64]


def test_few_rows_have_more_room():
    """So that they need fewer programs."""
    room = lambda rows: [batch_sizes.next_room(length, rows) for length in (1, 16, 17, 65)]
    rooms = {rows: room(rows) for rows in (4, 16, 64)}
    assert rooms == {4: [64, 64, 64, 128], 16: [32, 32, 32, 128], 64: [16, 16, 32, 128]}


def test_fine_lengths_are_two_per_octave():
    """So that of a long source at most a third is padding."""
    rounded = [batch_sizes.next_fine_length(length) for length in range(1, 1025)]
    for length, fine in enumerate(rounded, start=1):
        assert length <= fine < max(length + 2, length * 3 / 2)
        assert batch_sizes.next_fine_length(fine) == fine
    for start in (4, 8, 16, 32, 64, 512):
        assert len({fine for fine in rounded if start < fine <= 2 * start}) == 2


def test_each_device_has_the_same_power_of_4_of_rows_and_shrinks_by_quarters():
    for devices in (1, 2, 3, 8):
        for rows in range(1, 70):
            padded = batch_sizes.rows_in_powers_of_4(rows, devices)
            assert padded // devices in (1, 4, 16, 64, 256)
            assert rows <= padded == padded // devices * devices
            assert padded // devices == 1 or padded // 4 < rows
        sizes = [64 * devices]
        while sizes[-1]:
            sizes.append(batch_sizes.fewer_rows(sizes[-1], devices))
        assert sizes == [devices * rows for rows in (64, 16, 4, 0)]
        assert batch_sizes.fewer_rows(devices, devices) == 0  # a single row each
