/* The boards that a process sees: those that NVIDIA_VISIBLE_DEVICES names, as the runtime of containers reads it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session.h"

#define VARIABLE "NVIDIA_VISIBLE_DEVICES"

/* Whether a list has a word; entries are separated by commas, and may have blanks around them. */
static int has_word(const char *list, const char *word)
{
    size_t length = strlen(word);
    while (length && *list) {
        list += strspn(list, ", \t");
        size_t size = strcspn(list, ",");
        const char *next = list + size;
        while (size && strchr(" \t", list[size - 1]))
            size--;
        if (size == length && memcmp(list, word, size) == 0)
            return 1;
        list = next;
    }
    return 0;
}

/* Whether a list names a MIG device: by its UUID, or by the numbers of its board and of its place on it. */
static int has_part(const char *list, int64_t board, int64_t place, const struct part *part)
{
    char numbers[48];
    snprintf(numbers, sizeof numbers, "%lld:%lld", (long long)board, (long long)place);
    return has_word(list, part->uuid) || has_word(list, numbers);
}

static nvmlReturn_t copy_part(const struct map *map, const struct board *board, int64_t place, struct part *part)
{
    int64_t count = map_head(map)->part_count;
    if (board->first_part < 0 || board->first_part >= count || place >= count - board->first_part)
        return UNKNOWN_ERROR;
    nvmlReturn_t result = copy_record(map, map_head(map)->parts_in_slot, board->first_part + place, part, sizeof *part);
    end_texts_of_part(part);
    return result;
}

/* Whether a board, or one of its MIG devices, is named. */
static int has_board(const struct map *map, const char *list, int64_t number, struct board *board, int *is_whole)
{
    char index[24];
    struct part part;
    snprintf(index, sizeof index, "%lld", (long long)number);
    *is_whole = has_word(list, index) || has_word(list, board->uuid);
    int is_named = *is_whole;
    for (int64_t place = 0; !is_named && place < board->part_count && !copy_part(map, board, place, &part); place++)
        is_named = has_part(list, number, place, &part);
    return is_named;
}

nvmlReturn_t choose_boards(struct map *map, int say_why)
{
    const char *list = getenv(VARIABLE);
    struct board board;
    map->visible_count = map->board_count;
    if (!list || !*list || has_word(list, "all"))
        return SUCCESS;
    map->visible = calloc((size_t)map->board_count + 1, sizeof *map->visible);
    map->visible_list = strdup(list);
    if (!map->visible || !map->visible_list)
        return NO_MEMORY;
    map->visible_count = 0;
    for (int64_t number = 0; number < map->board_count; number++) {
        int is_whole;
        if (copy_record(map, map_head(map)->boards_in_slot, map->first_board + number, &board, sizeof board))
            return UNKNOWN_ERROR;
        end_texts_of_board(&board);
        if (has_board(map, list, number, &board, &is_whole))
            map->visible[map->visible_count++] = (struct visible){number, is_whole};
    }
    if (!map->visible_count && say_why && !has_word(list, "none") && !has_word(list, "void"))
        fprintf(stderr, "fakedev: %s=%.200s names no board of this node: numbers, UUIDs, all or none\n", VARIABLE, list);
    return SUCCESS;
}

int is_visible_part(const struct map *map, unsigned index, int64_t place, const struct part *part)
{
    const struct visible *visible = map->visible ? &map->visible[index] : NULL;
    return !visible || visible->is_whole || has_part(map->visible_list, visible->number, place, part);
}

int64_t position_of(const struct map *map, unsigned index)
{
    return map->first_board + (map->visible ? map->visible[index].number : (int64_t)index);
}

int64_t index_of(const struct map *map, int64_t position)
{
    int64_t number = position - map->first_board;
    if (number < 0 || number >= map->board_count || !map->visible)
        return number < map->board_count ? number : -1;
    for (int64_t index = 0; index < map->visible_count; index++)
        if (map->visible[index].number == number)
            return index;
    return -1;
}
